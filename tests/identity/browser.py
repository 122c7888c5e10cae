"""A person's browser for the pages of a provider: cookies, redirects and forms, on the standard library."""

from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, OpenerDirector, Request, build_opener


class Form:
    """A form of a page: its address and its fields."""

    def __init__(self, action: str, method: str) -> None:
        self.action = action
        self.method = method
        self.fields: dict[str, str] = {}
        self.buttons: list[tuple[str, str]] = []


class Page(HTMLParser):
    def __init__(self, url: str, status: int, text: str) -> None:
        super().__init__()
        self.url = url
        self.status = status
        self.text = text
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            action = urljoin(self.url, given.get("action", self.url))
            self.forms.append(Form(action, given.get("method", "get").lower()))
        elif tag == "a" and "href" in given:
            self.links.append(urljoin(self.url, given["href"]))
        elif tag in ("input", "button") and self.forms and given.get("name"):
            if given.get("type") == "submit" or tag == "button":
                self.forms[-1].buttons.append((given["name"], given.get("value", "")))
            else:
                self.forms[-1].fields[given["name"]] = given.get("value", "")

    @property
    def form(self) -> Form:
        assert self.forms, f"{self.url} ({self.status}) has no form:\n{self.text}"
        return self.forms[-1]


class Browser:
    """A person's browser with its cookies, which identify the person to the provider."""

    def __init__(self) -> None:
        self.cookies = CookieJar()
        self._opener: OpenerDirector = build_opener(HTTPCookieProcessor(self.cookies), _Redirects())

    def open(self, url: str) -> Page:
        return self._page(Request(url))

    def submit(self, form: Form, **typed: str) -> Page:
        fields = urlencode({**form.fields, **typed})
        if form.method == "get":
            return self._page(Request(f"{form.action}?{fields}"))
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(form.action))
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin, "Referer": form.action}
        return self._page(Request(form.action, fields.encode(), headers))

    def _page(self, request: Request) -> Page:
        try:
            with self._opener.open(request, timeout=60) as answer:
                return Page(answer.geturl(), answer.status, answer.read().decode())
        except HTTPError as error:
            with error:
                return Page(error.geturl(), error.code, error.read().decode(errors="replace"))


class _Redirects(HTTPRedirectHandler):
    """As a browser follows them: a POST answered with 302 or 303 goes on as GET."""

    max_redirections = 15
