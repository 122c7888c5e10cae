"""Actions of the default tag screens."""

from collections.abc import Mapping

from client.models.tags import MOST
from tui.shell.action import Action, ActionContext, line

MANAGERS = ("owner", "admin")
READ, WRITE = "organizations:read", "organizations:write"


# --- reasons ---------------------------------------------------------------------------------------------------------


def _tenant(context: ActionContext) -> str:
    if context.tenant:
        return ""
    return "no tenant is in use" if context.identity_known else "the tenants are still on their way"


def _manage(context: ActionContext) -> str:
    """Return why changes are not allowed. They need an owner, an admin or an API key with the scope."""
    if reason := _tenant(context):
        return reason
    if context.keyed and context.scopes and WRITE not in context.scopes:
        return f"this API key lacks the scope {WRITE}"
    if context.role and context.role not in MANAGERS:
        return "only an owner or admin of the organization changes and applies its default tags"
    return ""


def _change(context: ActionContext) -> str:
    return context.read_only or _manage(context)


def _draft(context: ActionContext) -> str:
    """Return why the draft cannot be edited."""
    return _change(context) or ("" if context.draft is not None else "the set is still on its way")


def _edit(context: ActionContext) -> str:
    if reason := _draft(context):
        return reason
    if context.record is None:
        return "nothing is selected"
    return "it is removed: remove it once more to have it back" if context.record.get("mark") == "removed" else ""


def _add(context: ActionContext) -> str:
    full = context.draft is not None and len(context.draft.tags) >= MOST
    return _draft(context) or (f"a tenant has at most {MOST} default tags: remove one first" if full else "")


def _on_row(context: ActionContext) -> str:
    return _draft(context) or ("" if context.record is not None else "nothing is selected")


def _unsaved(context: ActionContext) -> str:
    unchanged = context.draft is not None and not context.draft.dirty
    return _draft(context) or ("nothing was changed" if unchanged else "")


def _save(context: ActionContext) -> str:
    problem = context.draft.problem if context.draft is not None else None
    return _unsaved(context) or (problem.message if problem else "")


def _preview(context: ActionContext) -> str:
    draft = context.draft
    if reason := _manage(context):
        return reason
    if draft is not None and (problem := draft.problem):
        return problem.message
    return "there are no default tags to apply" if draft is not None and not draft.tags else ""


def _apply(context: ActionContext) -> str:
    if reason := context.read_only or _preview(context):
        return reason
    draft = context.draft
    return "the set is not saved: save it first" if draft is not None and draft.dirty else ""


def _afterwards(context: ActionContext) -> str:
    return _apply(context) or ("" if context.applying else "no apply goes on: apply at once")


def _undo_run(context: ActionContext) -> str:
    if reason := _change(context):
        return reason
    record = context.record
    if record is None:
        return "nothing is selected"
    if record.get("undoneBy"):
        return "it is undone already"
    if record.get("kind") == "undo":
        return "it is an undo itself: applying again adds the tags again"
    return "" if record.get("undoable") else "nothing it added is there to be taken away"


def _put_back(context: ActionContext) -> str:
    if reason := _change(context):
        return reason
    if context.record is None:
        return "nothing is selected"
    return "this is the set as it is" if context.record.get("current") else ""


def _selected(context: ActionContext) -> str:
    return "" if context.record is not None else "nothing is selected"


# --- commands --------------------------------------------------------------------------------------------------------

TAGS = ("tenant", "default-tags")
HISTORY = line(*TAGS, "history")


def set_line(tags: Mapping[str, str]) -> str:
    """Return the command that replaces the set, or clears it if `tags` is empty."""
    given = [word for key in sorted(tags) for word in ("--tag", f"{key}={tags[key]}")]
    return line(*TAGS, "set", *given) if given else line(*TAGS, "clear")


def _add_line(context: ActionContext) -> str:
    record = context.record or {}
    tag = f"{record['key']}={record.get('value', '')}" if "key" in record else "KEY=VALUE"
    return line(*TAGS, "set", "--merge", "--tag", tag)


def _save_line(context: ActionContext) -> str:
    return set_line(context.draft.tags) if context.draft is not None else ""


def _remove_line(context: ActionContext) -> str:
    if context.draft is None or context.record is None:
        return ""
    return set_line({key: value for key, value in context.draft.tags.items() if key != context.record.get("key")})


def _put_back_line(context: ActionContext) -> str:
    return line(*TAGS, "undo", "--version", str((context.record or {}).get("version", "")))


def _undo_run_line(context: ActionContext) -> str:
    return line(*TAGS, "undo", str((context.record or {}).get("runId", "")))


def _apply_line(_: ActionContext) -> str:
    return line(*TAGS, "apply")


def _preview_line(_: ActionContext) -> str:
    return line(*TAGS, "apply", "--preview")


def _history_line(_: ActionContext) -> str:
    return HISTORY


APPLY_HELP = "Adds what existing resources lack; asks with the counts first"

TAG_ACTIONS: tuple[Action, ...] = (
    Action(
        "default-tags.edit",
        "Edit tag",
        ("e",),
        "edit",
        reason=_edit,
        command=_add_line,
        help="Every rule is checked while typing; Enter does the same",
        dialog=True,
    ),
    Action(
        "default-tags.add",
        "New tag",
        ("n",),
        "new",
        reason=_add,
        command=_add_line,
        help="Into the draft; nothing is stored before it is saved",
        dialog=True,
    ),
    Action(
        "default-tags.remove",
        "Remove tag",
        ("delete",),
        "remove",
        reason=_on_row,
        command=_remove_line,
        help="Those marked, or the one under the cursor, from the draft; again has it back",
    ),
    Action(
        "default-tags.save",
        "Save the set",
        ("w",),
        "save",
        reason=_save,
        command=_save_line,
        help="Shows the difference first; resources that exist keep their tags",
        dialog=True,
        writes=True,
    ),
    Action(
        "default-tags.preview",
        "Preview an apply",
        ("p",),
        "preview",
        reason=_preview,
        command=_preview_line,
        help="What would change, type by type, also of a draft; nothing is written",
    ),
    Action(
        "default-tags.apply",
        "Apply to existing resources",
        ("a",),
        "apply",
        reason=_apply,
        command=_apply_line,
        help=APPLY_HELP,
        dialog=True,
        writes=True,
    ),
    Action(
        "default-tags.discard",
        "Discard the draft",
        ("D",),
        "discard",
        reason=_unsaved,
        help="The set as it is stored; can be undone",
    ),
    Action(
        "default-tags.follow",
        "The newest apply",
        ("f",),
        "apply run",
        reason=_tenant,
        command=_history_line,
        help="Progress, counts, failures and skips of the newest run",
    ),
    Action(
        "default-tags.versions",
        "What the set was",
        ("v",),
        "history",
        reason=_tenant,
        command=_history_line,
        help="Every stored set with who wrote it; one can be put back",
    ),
    Action(
        "default-tags.runs",
        "The last runs",
        ("u",),
        "runs",
        reason=_tenant,
        command=_history_line,
        help="The last ten applies and undos; what one added can be taken away again",
    ),
    Action(
        "tag-versions.difference",
        "Difference to the set as it is",
        ("c",),
        "compare",
        reason=_selected,
        command=_history_line,
        help="What putting it back would change; Enter does the same",
        dialog=True,
        of_named=True,
    ),
    Action(
        "tag-versions.put_back",
        "Put this set back",
        ("b",),
        "put back",
        reason=_put_back,
        command=_put_back_line,
        help="Stores it again, if nobody stored another one meanwhile; shows the difference first",
        dialog=True,
        writes=True,
    ),
    Action(
        "apply-preview.show",
        "Show the type",
        (),
        reason=_selected,
        command=_preview_line,
        help="How many resources of the type lack each key; Enter does the same",
        of_named=True,
    ),
    Action(
        "apply-preview.apply",
        "Apply to existing resources",
        ("a",),
        "apply",
        reason=_apply,
        command=_apply_line,
        help=APPLY_HELP,
        dialog=True,
        writes=True,
    ),
    Action(
        "apply-preview.untouched",
        "Skips and failures",
        ("f",),
        "skips",
        reason=_selected,
        command=_preview_line,
        help="Those that would be left alone, with the reason of each",
    ),
    Action(
        "apply.untouched",
        "Failures and skips",
        ("f",),
        "failures",
        reason=_selected,
        command=_history_line,
        help="With the reason of each; Enter shows those of the type",
        of_named=True,
    ),
    Action(
        "apply.again",
        "Apply again",
        ("a",),
        "apply",
        reason=_apply,
        command=_apply_line,
        help="Tries what failed again and adds what is missing by now; asks first",
        dialog=True,
        writes=True,
    ),
    Action(
        "apply.afterwards",
        "Apply again afterwards, or not",
        ("o",),
        "afterwards",
        reason=_afterwards,
        command=_apply_line,
        help="Begins your own apply when the one that goes on is over, as long as frost is open",
        writes=True,
    ),
    Action(
        "apply.runs",
        "The last runs",
        ("u",),
        "runs",
        reason=_tenant,
        command=_history_line,
        help="The last ten applies and undos; what one added can be taken away again",
    ),
    Action(
        "apply-runs.open",
        "What it did",
        ("i",),
        "open",
        reason=_selected,
        command=_history_line,
        help="Counts by type, failures and skips; Enter does the same",
        of_named=True,
    ),
    Action(
        "apply-runs.undo",
        "Undo this run",
        ("b",),
        "undo it",
        reason=_undo_run,
        command=_undo_run_line,
        help="Takes away just the tags it added, where they are still as it added them; asks with the counts first",
        dialog=True,
        writes=True,
    ),
    Action(
        "untouched.show",
        "Show the resource",
        (),
        reason=_selected,
        command=_history_line,
        help="Everything that is told about it; Enter does the same",
        of_named=True,
    ),
)
