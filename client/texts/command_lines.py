"""Commands that messages and screens suggest, with the flags that they need to mean the same.

`frost iam … --config FILE` suggests commands about the same file, and `--tenant ID` commands about the same tenant.
"""

import re
import shlex

COMMAND = re.compile(
    r"(?<![\w./-])frost (login|logout|whoami|config [a-z-]+"
    r"|account (?:(?:api-key|session) )?[a-z-]+"
    r"|iam (?:(?:policy|group member|group) )?[a-z-]+"
    r"|tenant (?:default-tags [a-z]+|quota (?:requests?|what-if)|[a-z]+))(?![\w-])(?!(?: [a-z-]+)* --help)"
)
"""A command that reads a context."""
_OF_TENANT = ("iam ", "account api-key ", "tenant activity", "tenant current", "tenant default-tags ", "tenant quota")
_OWN_TENANT_FLAG = "iam simulate"
_OF_DATA = re.compile(
    r"(?<![\w./-])frost platform (?:status|backup|restore|audit (?:verify|export|drop))(?![\w-])(?! --help)"
)


def with_flags(text: str, *, config: str | None = None, tenant: str | None = None, data_dir: str | None = None) -> str:
    """Add flags to the commands in a text. A text that has a flag already does not get it again.

    Args:
        text: A message, or command lines.
        config: The file of `--config`, for commands that read a context.
        tenant: The id of `--tenant`, for commands about a tenant's contents.
        data_dir: The folder of `--data-dir`, for commands of the operator.
    """
    config = None if "--config" in text else config
    tenant = None if "--tenant" in text else tenant

    def with_global_flags(match: re.Match[str]) -> str:
        words = [] if config is None else ["--config", config]
        if tenant is not None and match[1].startswith(_OF_TENANT) and match[1] != _OWN_TENANT_FLAG:
            words += ["--tenant", tenant]
        return f"{match[0]} {shlex.join(words)}" if words else match[0]

    if config is not None or tenant is not None:
        text = COMMAND.sub(with_global_flags, text)
    if data_dir is not None and "--data-dir" not in text:
        text = _OF_DATA.sub(lambda match: f"{match[0]} --data-dir {shlex.quote(data_dir)}", text)
    return text
