"""oidc-provider as it runs for a test, the person who uses its pages, and a platform that trusts it."""

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import urlopen

import yaml

from tests.homes import Home, Result
from tests.identity.browser import Browser, Page
from tests.people import OWNER
from tests.service.running import Running, tcp_address

AUDIENCE = "https://frost.example/api"
PEOPLE = {"astrid": {"email": OWNER, "email_verified": True}}


class OidcProvider:
    def __init__(self, folder: Path) -> None:
        given = {"port": 0, "audience": AUDIENCE, "people": PEOPLE}
        self._process = subprocess.Popen(
            ["node", "server.mjs", json.dumps(given)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.issuer: str = self._answer()["issuer"]

    def tell(self, **what: Any) -> None:
        """Change the settings of `server.mjs` while it serves."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        assert self._answer() == {"done": True}

    def _answer(self) -> Any:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("{"):  # its notices are on standard output as well
                return json.loads(line)
        raise AssertionError("the provider has ended")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


class Person:
    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.browser = Browser()
        self.asked: list[str] = []
        """Which questions the provider asked: `login`, `consent`."""

    def answer(self, page: Page, *, consents: bool = True) -> Page:
        while page.forms and "prompt" in page.form.fields:
            self.asked.append(page.form.fields["prompt"])
            if page.form.fields["prompt"] == "login":
                page = self.browser.submit(page.form, login=self.subject, password="correct horse")
            elif consents:
                page = self.browser.submit(page.form)
            else:
                page = self.browser.open(next(link for link in page.links if link.endswith("/abort")))
        return page

    def answer_at(self, url: str) -> Page:
        return self.answer(self.browser.open(url))

    def enter_code(self, url: str, code: str, *, consents: bool = True) -> Page:
        """Open the page of the device flow, type the code, confirm it, and sign in."""
        page = self.browser.submit(self.browser.open(url).form, user_code=code)
        if "confirm" in page.form.fields:
            page = self.browser.submit(page.form)
        return self.answer(page, consents=consents)


class Login:
    """`frost login` while it waits for the browser."""

    def __init__(self, home: Home, *words: str, **variables: str) -> None:
        self._home = home
        # The browser is a command that does nothing; the test opens the page.
        environment = home.environment({"BROWSER": "true", **variables})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tui", "login", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=home.path,
        )
        self.talk = ""

    def waits_for(self, words: str) -> str:
        """Return the rest of the line of its output after these words."""
        assert self._process.stderr
        for line in self._process.stderr:
            self.talk += line
            if words in line:
                return line.partition(words)[2].strip()
        raise AssertionError(f"{words!r} is missing in:\n{self.talk}")

    def page(self) -> str:
        return self.waits_for("sign in with your browser: ")

    def code(self) -> tuple[str, str]:
        """The page of the device flow, and the code to enter there."""
        url, _, code = self.waits_for("open ").partition(" and enter the code ")
        return url, code

    def end(self, seconds: float = 60) -> Result:
        out, err = self._process.communicate(timeout=seconds)
        self._home.note_seen()
        return Result(self._process.returncode, out, self.talk + err)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


class Site:
    """A platform on TCP that trusts an outside issuer, and a new home for each test whose context `work` it is."""

    home: Home

    def __init__(self, platform: Running, issuer: str) -> None:
        self.platform, self.issuer = platform, issuer
        self.url = "http://{}:{}".format(*tcp_address(platform))
        self._logins: list[Login] = []
        self._before = 0

    @property
    def log(self) -> str:
        """The log of the platform since the start of the test."""
        return self.platform.log[self._before :]

    def login(self, *words: str, **variables: str) -> Login:
        begun = Login(self.home, *words, "--context", "work", *self._endpoint(), **variables)
        self._logins.append(begun)
        return begun

    def _endpoint(self) -> tuple[str, ...]:
        known = self.home.config.is_file() and "work:" in self.home.config.read_text()
        return () if known else ("--endpoint", f"{self.url}/api")

    def signs_in(self, person: Person, *words: str) -> Result:
        """`frost login` to its end, by browser unless the words say `--device`."""
        login = self.login(*(words or ("--browser",)))
        if "--device" in words:
            person.enter_code(*login.code())
        else:
            person.answer_at(login.page())
        return login.end()

    def takes_tokens(self, person: Person) -> dict[str, Any]:
        """Sign in by device code without the project's client; the platform has not seen the tokens."""
        asked = {"client_id": "frost-cli", "resource": AUDIENCE}
        begun = posted(f"{self.issuer}/device/auth", {**asked, "scope": "openid email offline_access"})
        person.enter_code(begun["verification_uri"], begun["user_code"])
        grant = "urn:ietf:params:oauth:grant-type:device_code"
        return posted(f"{self.issuer}/token", {**asked, "grant_type": grant, "device_code": begun["device_code"]})

    def come_back(self, page: str, **answer: str) -> Page:
        """Send an answer to the waiting client as the provider's redirect, with the state of its request."""
        query = dict(parse_qsl(urlsplit(page).query))
        sent = urlencode({"state": query["state"], "iss": self.issuer, **answer})
        return Browser().open(f"{query['redirect_uri']}?{sent}")

    def credentials(self) -> dict[str, Any]:
        return dict(yaml.safe_load(self.home.config.read_text())["contexts"]["work"]["credentials"])

    def make_due(self) -> dict[str, Any]:
        """Move the expiry of the access token into the next seconds; return the credentials."""
        before = self.credentials()
        soon = str(int(time.time()) + 5)
        self.home.config.write_text(self.home.config.read_text().replace(str(before["expires_at"]), soon))
        return before

    def who(self) -> str:
        return str(self.home.json("whoami")["email"])

    def status_of(self, token: str) -> int:
        """Return the platform's status for a token."""
        return self.platform.get("/api/v1/me", token=token).status

    @contextmanager
    def new_home(self) -> Iterator[Home]:
        self.home, self._before = Home(), len(self.platform.log)
        try:
            yield self.home
        finally:
            for login in self._logins:
                login.kill()
            self._logins.clear()
            self.home.remove()


@contextmanager
def site_of(issuer: str, *words: str) -> Iterator[Site]:
    with Running(None, "demo", "--listen", "127.0.0.1:0", "--issuer", issuer, *words) as platform:
        yield Site(platform, issuer)


def posted(url: str, form: dict[str, str]) -> dict[str, Any]:
    with urlopen(url, urlencode(form).encode(), timeout=60) as answer:
        return dict(json.load(answer))


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def past_this_second() -> None:
    """Wait: `auth_time` is in whole seconds, and a sign-in in the second of `revoke-all` counts as before it."""
    time.sleep(1.1)
