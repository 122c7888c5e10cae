"""A cluster as an issuer of service-account tokens: keys of the test's own, registered with the platform."""

import time
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from tests.api import Answer
from tests.people import OWNER, WEB_SHOP
from tests.service.access import STOREFRONT
from tests.service.running import Running

STOREFRONT_FRA = "6924eec8-d247-42f8-b7db-bb3eec82cf99"
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT_TYPE = "urn:ietf:params:oauth:token-type:jwt"


class Cluster:
    """A cluster of a tenant; its issuer is registered on the first use of `register`."""

    def __init__(self, platform: Running, cluster_id: str = STOREFRONT, tenant: str = WEB_SHOP) -> None:
        self.platform, self.id, self.tenant = platform, cluster_id, tenant
        self.issuer = f"https://{cluster_id}.clusters.example"
        self.key = ECKey.generate_key("P-256", auto_kid=True)

    @property
    def path(self) -> str:
        return f"/api/v1/tenants/{self.tenant}/workload-identity/clusters/{self.id}/issuer"

    def register(self, person: str = OWNER, **members: Any) -> Answer:
        body = {"issuer": self.issuer, "keys": [dict(self.key.as_dict(private=False))]} | members
        return self.platform.ask("PUT", self.path, as_=person, body=body)

    def token(self, namespace: str, service_account: str, **claims: Any) -> str:
        """A service account's own token, as its cluster signs it; a claim given as None is left out."""
        now = int(time.time())
        said = {
            "iss": self.issuer,
            "sub": f"system:serviceaccount:{namespace}:{service_account}",
            "aud": [f"frost:cluster:{self.id}"],
            "iat": now,
            "nbf": now,
            "exp": now + 3600,
        } | claims
        header = {"alg": "ES256", "kid": self.key.kid}
        return jwt.encode(header, {name: value for name, value in said.items() if value is not None}, self.key)


def exchange(platform: Running, token: str, **fields: str) -> Answer:
    form = {"grant_type": GRANT, "subject_token": token, "subject_token_type": JWT_TYPE} | fields
    return platform.post_form("/api/v1/auth/workload-token", **form)


class Workload:
    """A service account bound in Web Shop, with a token."""

    def __init__(self, cluster: Cluster, namespace: str, service_account: str, **claims: Any) -> None:
        answer = exchange(cluster.platform, cluster.token(namespace, service_account, **claims))
        assert answer.status == 200, answer
        self.platform, self.answer = cluster.platform, answer.json()
        self.token: str = self.answer["access_token"]

    def use(self, method: str = "GET", path: str = "/api/v1/me", body: Any = None) -> Answer:
        return self.platform.request(method, path, token=self.token, body=body)
