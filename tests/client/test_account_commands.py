"""`frost account` and `frost iam` against scripted responses."""

from tests.client.scripted import Scripted, refused


def test_the_profile_names_a_workload_identity(platform: Scripted) -> None:
    me = {"id": "u-1", "tenantId": "t-1", "credential": {"kind": "workload", "id": "w-1"}}
    platform.on("GET /api/v1/me", me)
    assert "workload identity" in platform.run("account", "profile").out
    assert platform.document("account", "profile")["credential"]["kind"] == "workload"


def test_a_refusal_for_people_only_names_login(platform: Scripted) -> None:
    platform.on("GET /iam/policies", refused(403, "SESSION_REQUIRED", "an interactive session is required"))
    platform.on("GET /api/v1/sessions", refused(403, "SESSION_REQUIRED", "an interactive session is required"))
    for words in (("iam", "policy", "list"), ("account", "session", "list")):
        ended = platform.run(*words)
        assert (ended.code, ended.out) == (4, "")
        assert "frost login" in ended.err
