"""What only the publisher can say about a dataset: the answers that no count or hash gives."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Datasheet:
    """Answers to the questions of a datasheet (Gebru et al., Datasheets for Datasets, 2021).

    A few sentences each; what is empty stands on the card as not stated. Everything that can be counted or
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

    def stated(self) -> dict[str, str]:
        """The answers that were given."""
        return {name: answer for name, answer in asdict(self).items() if answer}
