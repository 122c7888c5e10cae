"""canaille as it runs for a test, and the person who uses its pages."""

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.homes import Result
from tests.identity.browser import Browser, Page
from tests.identity.provider import PEOPLE, Site, posted

PASSWORD = "correct horse"


class Canaille:
    """The process of `canaille_server.py`; it knows the redirect address of one port only."""

    def __init__(self, python: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        redirect = f"http://127.0.0.1:{self.port}/callback"
        given = {"people": PEOPLE, "password": PASSWORD, "redirect": redirect}
        self._process = subprocess.Popen(
            [python, "-P", Path(__file__).with_name("canaille_server.py"), json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "canaille has ended"
        self.issuer: str = json.loads(line)["issuer"]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def signs_in(self, site: Site, person: "CanaillePerson") -> Result:
        login = site.login("--browser", FROST_LOGIN_PORT=self.port)
        person.answer(person.browser.open(login.page()))
        return login.end()

    def refreshed(self, refresh_token: str) -> dict[str, Any]:
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": "frost-cli"}
        return posted(f"{self.issuer}/oauth/token", form)


class CanaillePerson:
    def __init__(self, name: str) -> None:
        self.name = name
        self.browser = Browser()
        self.asked: list[str] = []
        """The requested inputs: `login` or `password`."""

    def answer(self, page: Page) -> Page:
        while page.forms and len(self.asked) < 10:
            field = next((name for name in ("login", "password") if name in page.form.fields), "")
            assert field, f"{page.url} asks for something else:\n{page.text}"
            self.asked.append(field)
            page = self.browser.submit(page.form, **{field: self.name if field == "login" else PASSWORD})
        return page
