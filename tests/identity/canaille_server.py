"""canaille, set up for frost on the loopback. Its pages are the package's own.

    python canaille_server.py '{"people": {"NAME": {"email": …}}, "password": "…", "redirect": "http://127.0.0.1:PORT/…"}'

Runs in the environment of `parts.canaille`. The first line on standard output is {"issuer": URL}; it serves until it is
killed. Everything is in memory and gone then.
"""

import json
import socket
import sys
from datetime import UTC, datetime

import canaille
from canaille.app import models
from canaille.backends import Backend
from werkzeug.serving import make_server

given = json.loads(sys.argv[1])
listening = socket.create_server(("127.0.0.1", 0))
address = "127.0.0.1:{1}".format(*listening.getsockname())
app = canaille.create_app(
    {
        "SECRET_KEY": "a secret of the cookies of a test",
        "SERVER_NAME": address,
        "PREFERRED_URL_SCHEME": "http",
        "CANAILLE": {"DATABASE": "memory", "SMTP": None},
        # Of a client whose page is not trusted it asks consent, and with `prompt=login` the password again after it,
        # and so on without an end: the time of the sign-in is compared with that of the consent's own request.
        "CANAILLE_OIDC": {"TRUSTED_DOMAINS": ["frost.example"]},
    },
    env_file=None,
)
with app.app_context(), Backend.instance.session():
    for name, person in given["people"].items():
        user = models.User(
            user_name=name, formatted_name=name, family_name=name, password=given["password"], emails=[person["email"]]
        )
        Backend.instance.save(user)
    client = models.Client(
        client_id="frost-cli",
        client_name="frost",
        client_uri="https://frost.example",
        client_id_issued_at=datetime.now(UTC),
        redirect_uris=[given["redirect"]],
        token_endpoint_auth_method="none",
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=["openid", "profile", "email"],
        id_token_signed_response_alg="RS256",
    )
    Backend.instance.save(client)
    client.audience = [client]
    Backend.instance.save(client)

server = make_server("127.0.0.1", 0, app, threaded=True, fd=listening.fileno())
sys.stdout.write(json.dumps({"issuer": f"http://{address}"}) + "\n")
sys.stdout.flush()
server.serve_forever()
