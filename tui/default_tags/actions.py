"""Actions of the default tag screens."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tui.shell.action import Action, ActionContext, about_record, all_of, is_manager, line, selected, writable

if TYPE_CHECKING:
    from client.models.default_tags import ApplyRun, TagVersion
    from tui.state.tag_draft import TagRow

READ, WRITE = "organizations:read", "organizations:write"


# --- guards ----------------------------------------------------------------------------------------------------------


def _has_tenant(context: ActionContext) -> str:
    if context.tenant:
        return ""
    return "no tenant selected" if context.identity_known else "loading tenants"


def _has_scope(context: ActionContext) -> str:
    lacking = context.keyed and context.scopes and WRITE not in context.scopes
    return f"this API key lacks the scope {WRITE}" if lacking else ""


def _has_draft(context: ActionContext) -> str:
    return "" if context.draft is not None else "loading default tags"


def _has_room(context: ActionContext) -> str:
    from client.models.validation import MOST

    full = context.draft is not None and len(context.draft.tags) >= MOST
    return f"a tenant has at most {MOST} default tags: remove one first" if full else ""


def _has_changes(context: ActionContext) -> str:
    return "no changes" if context.draft is not None and not context.draft.dirty else ""


def _is_saved(context: ActionContext) -> str:
    return "unsaved changes: save them first" if context.draft is not None and context.draft.dirty else ""


def _is_valid(context: ActionContext) -> str:
    problem = context.draft.problem if context.draft is not None else None
    return problem.message if problem else ""


def _has_tags(context: ActionContext) -> str:
    return "no default tags to apply" if context.draft is not None and not context.draft.tags else ""


def _is_applying(context: ActionContext) -> str:
    return "" if context.applying else "no apply is running"


@about_record
def _is_not_removed(_: ActionContext, tag: "TagRow") -> str:
    return "removed from the draft: restore the tag first" if tag.mark == "removed" else ""


@about_record
def _is_undoable(_: ActionContext, run: "ApplyRun") -> str:
    if run.undone_by:
        return "already undone"
    if run.kind == "undo":
        return "this run is an undo: apply again to add the tags"
    return "" if run.undoable else "none of its tags are left to remove"


@about_record
def _is_earlier_version(_: ActionContext, version: "TagVersion") -> str:
    return "this is the current version" if version.current else ""


_can_manage = all_of(
    _has_tenant,
    _has_scope,
    is_manager("only an owner or admin of the organization can change and apply its default tags"),
)
_can_edit = all_of(writable, _can_manage, _has_draft)
_can_preview = all_of(_can_manage, _is_valid, _has_tags)
_can_apply = all_of(_can_preview, _is_saved)


# --- commands --------------------------------------------------------------------------------------------------------

TAGS = ("tenant", "default-tags")
HISTORY = line(*TAGS, "history")


def set_line(tags: Mapping[str, str]) -> str:
    """Return the command that replaces the set, or clears it if `tags` is empty."""
    options = [option for key in sorted(tags) for option in ("--tag", f"{key}={tags[key]}")]
    return line(*TAGS, "set", *options) if options else line(*TAGS, "clear")


def _add_line(context: ActionContext) -> str:
    tag: TagRow | None = context.record
    return line(*TAGS, "set", "--merge", "--tag", f"{tag.key}={tag.value}" if tag is not None else "KEY=VALUE")


def _save_line(context: ActionContext) -> str:
    return set_line(context.draft.tags) if context.draft is not None else ""


def _remove_line(context: ActionContext) -> str:
    tag: TagRow | None = context.record
    if context.draft is None or tag is None:
        return ""
    return set_line({key: value for key, value in context.draft.tags.items() if key != tag.key})


def _put_back_line(context: ActionContext) -> str:
    version: TagVersion | None = context.record
    return line(*TAGS, "undo", "--version", str(version.version) if version is not None else "")


def _undo_run_line(context: ActionContext) -> str:
    run: ApplyRun | None = context.record
    return line(*TAGS, "undo", run.run_id if run is not None else "")


def _apply_line(_: ActionContext) -> str:
    return line(*TAGS, "apply")


def _preview_line(_: ActionContext) -> str:
    return line(*TAGS, "apply", "--preview")


def _history_line(_: ActionContext) -> str:
    return HISTORY


APPLY_HELP = "Add missing tags to existing resources; shows the counts and asks first"

TAG_ACTIONS: tuple[Action, ...] = (
    Action(
        "default-tags.edit",
        "Edit tag",
        handler="tui.default_tags.screen:DefaultTags.do_edit",
        keys=("e",),
        footer_label="edit",
        guard=all_of(_can_edit, selected, _is_not_removed),
        command=_add_line,
        help="The tag is checked while you type; Enter does the same",
        opens_dialog=True,
    ),
    Action(
        "default-tags.add",
        "New tag",
        handler="tui.default_tags.screen:DefaultTags.do_add",
        keys=("n",),
        footer_label="new",
        guard=all_of(_can_edit, _has_room),
        command=_add_line,
        help="Add a tag to the draft; nothing is stored until you save",
        opens_dialog=True,
    ),
    Action(
        "default-tags.remove",
        "Remove tag",
        handler="tui.default_tags.screen:DefaultTags.do_remove",
        keys=("delete",),
        footer_label="remove",
        guard=all_of(_can_edit, selected),
        command=_remove_line,
        help="Remove the marked tags or the selected one from the draft; press again to restore",
    ),
    Action(
        "default-tags.save",
        "Save default tags",
        handler="tui.default_tags.screen:DefaultTags.do_save",
        keys=("w",),
        footer_label="save",
        guard=all_of(_can_manage, _has_draft, _has_changes, _is_valid),
        command=_save_line,
        help="Shows the difference first; existing resources keep their tags",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "default-tags.preview",
        "Preview apply",
        handler="tui.default_tags.screen:DefaultTags.do_preview",
        keys=("p",),
        footer_label="preview",
        guard=_can_preview,
        command=_preview_line,
        help="Show the changes of an apply by type, also for a draft; nothing is written",
    ),
    Action(
        "default-tags.apply",
        "Apply to existing resources",
        handler="tui.default_tags.screen:DefaultTags.do_apply",
        keys=("a",),
        footer_label="apply",
        guard=_can_apply,
        command=_apply_line,
        help=APPLY_HELP,
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "default-tags.discard",
        "Discard the draft",
        handler="tui.default_tags.screen:DefaultTags.do_discard",
        keys=("D",),
        footer_label="discard",
        guard=all_of(_can_edit, _has_changes),
        help="Return to the stored tags; can be undone",
    ),
    Action(
        "default-tags.follow",
        "Latest apply",
        handler="tui.default_tags.screen:DefaultTags.do_follow",
        keys=("f",),
        footer_label="apply run",
        guard=_has_tenant,
        command=_history_line,
        help="Progress, counts, failures and skips of the latest run",
    ),
    Action(
        "default-tags.versions",
        "History",
        handler="tui.default_tags.screen:DefaultTags.do_versions",
        keys=("v",),
        footer_label="history",
        guard=_has_tenant,
        command=_history_line,
        help="All stored versions and their authors; a version can be restored",
    ),
    Action(
        "default-tags.runs",
        "Recent runs",
        handler="tui.default_tags.screen:DefaultTags.do_runs",
        keys=("u",),
        footer_label="runs",
        guard=_has_tenant,
        command=_history_line,
        help="The last ten applies and undos; an apply can be undone",
    ),
    Action(
        "tag-versions.difference",
        "Difference to the current version",
        handler="tui.default_tags.versions:TagVersions.do_difference",
        keys=("c",),
        footer_label="compare",
        guard=selected,
        command=_history_line,
        help="Show the changes since this version; Enter does the same",
        opens_dialog=True,
        accepts_record_argument=True,
    ),
    Action(
        "tag-versions.put_back",
        "Restore this version",
        handler="tui.default_tags.versions:TagVersions.do_put_back",
        keys=("b",),
        footer_label="restore",
        guard=all_of(_can_manage, selected, _is_earlier_version),
        command=_put_back_line,
        help="Refused if another version was stored since; shows the difference first",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "apply-preview.show",
        "Show the type",
        handler="tui.shell.remote_list_screen:RemoteListScreen.do_show",
        guard=selected,
        command=_preview_line,
        help="Number of resources of the type that miss each key; Enter does the same",
        accepts_record_argument=True,
    ),
    Action(
        "apply-preview.apply",
        "Apply to existing resources",
        handler="tui.default_tags.apply_lists:ApplyPreview.do_apply",
        keys=("a",),
        footer_label="apply",
        guard=_can_apply,
        command=_apply_line,
        help=APPLY_HELP,
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "apply-preview.untouched",
        "Failures and skips",
        handler="tui.default_tags.apply_lists:ApplyPreview.do_untouched",
        keys=("f",),
        footer_label="skips",
        guard=selected,
        command=_preview_line,
        help="Resources that would not change, with reasons",
    ),
    Action(
        "apply.untouched",
        "Failures and skips",
        handler="tui.default_tags.apply_screen:Apply.do_untouched",
        keys=("f",),
        footer_label="failures",
        guard=selected,
        command=_history_line,
        help="All failures and skips with reasons; Enter shows those of the type",
        accepts_record_argument=True,
    ),
    Action(
        "apply.again",
        "Apply again",
        handler="tui.default_tags.apply_screen:Apply.do_again",
        keys=("a",),
        footer_label="apply",
        guard=_can_apply,
        command=_apply_line,
        help="Retry failed resources and add missing tags; asks first",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "apply.afterwards",
        "Queue another apply, or cancel it",
        handler="tui.default_tags.apply_screen:Apply.do_afterwards",
        keys=("o",),
        footer_label="queue apply",
        guard=all_of(_can_apply, _is_applying),
        command=_apply_line,
        help="Starts your apply when the current one has finished, if frost is still open",
        writes=True,
    ),
    Action(
        "apply.runs",
        "Recent runs",
        handler="tui.default_tags.apply_screen:Apply.do_runs",
        keys=("u",),
        footer_label="runs",
        guard=_has_tenant,
        command=_history_line,
        help="The last ten applies and undos; an apply can be undone",
    ),
    Action(
        "apply-runs.open",
        "Show run",
        handler="tui.default_tags.apply_lists:ApplyRuns.do_open",
        keys=("i",),
        footer_label="open",
        guard=selected,
        command=_history_line,
        help="Counts by type, failures and skips; Enter does the same",
        accepts_record_argument=True,
    ),
    Action(
        "apply-runs.undo",
        "Undo this run",
        handler="tui.default_tags.apply_lists:ApplyRuns.do_undo",
        keys=("b",),
        footer_label="undo run",
        guard=all_of(_can_manage, selected, _is_undoable),
        command=_undo_run_line,
        help="Remove the tags that the run added, unless they have changed; shows the counts and asks first",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "untouched.show",
        "Show the resource",
        handler="tui.shell.remote_list_screen:RemoteListScreen.do_show",
        guard=selected,
        command=_history_line,
        help="All details of the resource; Enter does the same",
        accepts_record_argument=True,
    ),
)
