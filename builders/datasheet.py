"""The answers about a dataset that only its publisher can give: no count or hash contains them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path

from shiftdata.errors import InputError, not_found
from shiftdata.untrusted.texts import read_toml

#: How an answer begins that is still to be given.
TODO = "TODO:"
#: The questions that venues ask of every dataset: `new` writes them as answers that are still to be given.
ASKED = {
    "people": "do people occur in it; consent, personal or sensitive information",
    "biases": "which groups, places, tastes or tools are over- or under-represented",
    "limitations": "what it cannot show; errors and noise that are known",
    "uses": "what it is good for",
    "impact": "whom its use may help or harm",
}


@dataclass(frozen=True, kw_only=True)
class Datasheet:
    """Answers to the questions of a datasheet (Gebru et al., Datasheets for Datasets, 2021).

    A few sentences each; the card shows what is empty as not stated. Everything that can be counted or
    hashed is not asked here: the card takes it from the manifest.
    """

    #: Why the dataset was made, and which gap it fills.
    purpose: str = ""
    #: Who paid for it.
    funding: str = ""
    #: What one example shows.
    instances: str = ""
    #: Where the content came from, who gathered it, how and when.
    collection: str = ""
    #: How the content was chosen out of all that there was.
    selection: str = ""
    #: Who gave the labels, and how.
    labelling: str = ""
    #: What was done to the content before it was published.
    preprocessing: str = ""
    #: Whether people occur in it: consent, personal or sensitive information, offending content.
    people: str = ""
    #: Which groups, places, tastes or tools are over- or under-represented.
    biases: str = ""
    #: What it cannot show; errors and noise that are known.
    limitations: str = ""
    #: What it is good for.
    uses: str = ""
    #: What it must not be used for.
    misuses: str = ""
    #: Whom its use may help or harm.
    impact: str = ""
    #: Who looks after it, for how long, and how to report a mistake.
    maintenance: str = ""

    @classmethod
    def read(cls, path: Path) -> Datasheet:
        """Read the answers from a TOML file, in which they may run over several lines."""
        try:
            answers = read_toml(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as a datasheet: {error}") from error
        questions = [field.name for field in fields(cls)]
        for name, answer in answers.items():
            if name not in questions:
                raise not_found("question", name, questions, f"It is in {path}.")
            if not isinstance(answer, str):
                raise InputError(f"{path}: the answer to {name} must be text, got {answer!r}")
        return cls(**{name: " ".join(answer.split()) for name, answer in answers.items()})

    def stated(self) -> dict[str, str]:
        """The answers that were given."""
        return {name: answer for name, answer in asdict(self).items() if answer}
