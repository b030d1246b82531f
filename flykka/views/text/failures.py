"""Formats failures of a job: the failed task, the cause, the user's lines that led to it, and the reaction."""

from __future__ import annotations

from flykka.messages.monitoring.exception_history import FailureOutcome, RootExceptionHistoryEntry
from flykka.views.text.formats import counted, lasting
from flykka.views.text.user_stack import full_text


def failure_lines(entry: RootExceptionHistoryEntry, began_ms: int) -> list[str]:
    at = f"{(entry.root.timestamp_ms - began_ms) / 1_000:.2f} s"
    first, *others = story(entry)
    return [f"{at}  {first}", *(f"{' ' * len(at)}  {line}" for line in (*others, outcome(entry)))]


def story(entry: RootExceptionHistoryEntry) -> list[str]:
    first = f"{place(entry)}{entry.root.cause.headline}{also(entry)}"
    labels_text = labels(entry)
    return [first, *full_text(entry.root.cause)[1:], *([labels_text] if labels_text else [])]


def labels(entry: RootExceptionHistoryEntry) -> str:
    """Format the labels of a failure, if any: `labels: owner=team-a, type=user`."""
    pairs = ", ".join(f"{label.key}={label.value}" for label in entry.root.failure_labels)
    return f"labels: {pairs}" if pairs else ""


def place(entry: RootExceptionHistoryEntry) -> str:
    """Format the failed task and its TaskManager, or return "" for a failure of the whole job."""
    root = entry.root
    if root.task_name is None:
        return ""
    return f"{root.task_name}{f' on {root.task_manager}' if root.task_manager else ''}: "


def also(entry: RootExceptionHistoryEntry) -> str:
    others = len(entry.concurrent) + entry.concurrent_suppressed
    return f" (and {counted(others, 'other task')} with it)" if others else ""


def times(entry: RootExceptionHistoryEntry) -> str:
    """Format how often the same failure has occurred, if repeatedly: `same failure, 52 times in 1 min 40 s`."""
    if entry.times == 1 or entry.last_timestamp_ms is None:
        return ""
    return f"same failure, {entry.times:,} times in {lasting(entry.last_timestamp_ms - entry.root.timestamp_ms)}"


def outcome(entry: RootExceptionHistoryEntry) -> str:
    """Format the reaction to a failure and its result. For a repeated failure, format their number and the last
    reaction.
    """
    return "; ".join(text for text in (times(entry), _outcome(entry)) if text)


def _outcome(entry: RootExceptionHistoryEntry) -> str:
    after = f" after {lasting(entry.delay_ms)}" if entry.delay_ms else ""
    tasks = len(entry.restarted_tasks)
    what = counted(tasks, "task") if tasks else "the job"
    match entry.outcome:
        case FailureOutcome.UNDECIDED:
            return "no decision yet"
        case FailureOutcome.RESTARTING:
            return f"{what} {'are' if tasks > 1 else 'is'} to restart{after}"
        case FailureOutcome.RESTARTED if entry.restored_checkpoint is None:
            return f"{what} restarted{after} from the beginning"
        case FailureOutcome.RESTARTED:
            return f"{what} restarted{after} from checkpoint {entry.restored_checkpoint}"
        case FailureOutcome.FAILED:
            why = f" ({entry.why_not_restarted})" if entry.why_not_restarted else ""
            return f"not recovered: the job has FAILED{why}"
        case FailureOutcome.CANCELED:
            return "the job was cancelled before it recovered"
