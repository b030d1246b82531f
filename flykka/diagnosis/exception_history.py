"""The exception history of a job, displayed as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from flykka.messages.monitoring.exception_history import RootExceptionHistoryEntry
from flykka.views.html.markup import display, element, quiet, table
from flykka.views.text.failures import also, failure_lines, labels, outcome, place
from flykka.views.text.formats import counted
from flykka.views.text.user_stack import full_text

if TYPE_CHECKING:
    from flykka.messages.monitoring.job_details import JobDetails


@dataclass(frozen=True, slots=True)
class JobExceptionHistory(Sequence[RootExceptionHistoryEntry]):
    """The last failures of a job, oldest first. `suppressed` is the number of earlier failures."""

    entries: tuple[RootExceptionHistoryEntry, ...]
    suppressed: int = 0
    began_ms: int = 0

    @classmethod
    def from_details(cls, details: JobDetails) -> JobExceptionHistory:
        return cls(details.exceptions, details.number_of_exceptions - len(details.exceptions), details.started_ms or 0)

    @overload
    def __getitem__(self, index: int) -> RootExceptionHistoryEntry: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[RootExceptionHistoryEntry, ...]: ...

    def __getitem__(self, index: int | slice) -> RootExceptionHistoryEntry | tuple[RootExceptionHistoryEntry, ...]:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[RootExceptionHistoryEntry]:
        return iter(self.entries)

    def __repr__(self) -> str:
        if not self.entries:
            return "no failures"
        lines = [f"and {counted(self.suppressed, 'failure')} before these"] if self.suppressed else []
        return "\n".join([*lines, *(line for entry in self for line in failure_lines(entry, self.began_ms))])

    def _repr_html_(self) -> str:
        if not self.entries:
            return display("no failures")
        titles = (("failed after", ""), ("task", ""), ("of", "wide"), ("then", ""))
        return display(
            quiet(f"and {self.suppressed:,} before these") if self.suppressed else "",
            table(titles, (_row(entry, self.began_ms) for entry in self)),
        )


def _row(entry: RootExceptionHistoryEntry, began_ms: int) -> tuple[str, ...]:
    cause = entry.root.cause
    first, *rest = full_text(cause) or [""]
    full = "\n".join(text for text in ("\n".join(rest), cause.stack_trace) if text.strip())
    summary = f"{cause.type_name}: {first}{also(entry)}"
    summary += f" ({told_labels})" if (told_labels := labels(entry)) else ""
    cell = element("details", element("summary", summary), element("pre", full)) if full else summary
    at = f"{(entry.root.timestamp_ms - began_ms) / 1_000:.2f} s"
    return at, place(entry).removesuffix(": ") or "the job", cell, outcome(entry)
