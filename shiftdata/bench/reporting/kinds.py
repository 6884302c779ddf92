"""The kinds of tasks, by their protocols, and the titles of their figures."""

from __future__ import annotations

from dataclasses import dataclass

from shiftdata.evaluation.tasks.descriptions import steps_of


@dataclass(frozen=True)
class Kind:
    """Tasks that share the form of their tables.

    `main` is the figure by which methods are compared, and `axes` are the parameters along which tables are
    laid out.
    """

    name: str
    main: str
    protocols: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()


_SCENARIO = ("source", "target", "scenario")
_DOMAINS = "leave-one-domain-out leave-one-group-out domainbed domainbed-v2 classic-dg flexible-dg"
_DOMAINS += " listed oracle oracle*"
#: The first that has one of a task's protocols.
KINDS = (
    Kind("label shift", "overall", ("label-shift",), ("alpha",)),
    Kind("group fairness", "worst", ("group-fairness",), ("k", "mu")),
    Kind("universal domain adaptation", "h_score", ("unida",), _SCENARIO),
    Kind("domain adaptation", "overall", ("uda",), _SCENARIO),
    Kind("continuous shift", "overall", ("continuous",)),
    Kind("domain generalization", "mean_domain", tuple(_DOMAINS.split()), ("test", "group", "groups")),
)
OTHER = Kind("other tasks", "overall")

#: The units of figures that are no shares of rows; all others are printed in per cent.
UNITS = {
    "mean_failure_point": "severity", "marginal_error": "l1", "worst_by_chance_p": "probability",
    "rank": "rank",
}  # fmt: skip
TITLES = {
    "overall": "accuracy", "worst": "worst group", "mean": "mean over groups",
    "worst_3": "mean of the 3 worst groups", "worst_5": "mean of the 5 worst groups", "h_score": "H-score",
    "h_score_classes": "H-score over classes", "known": "known classes", "unknown": "unknown classes",
    "mean_domain": "mean over domains", "worst_domain": "worst domain", "std_domain": "SD over domains",
    "mean_class": "mean over classes", "mean_drop": "mean drop", "failures": "trajectories that fail",
    "mean_failure_point": "mean failure point", "drop": "accuracy drop",
    "marginal_error": "error of the marginal of labels",
}  # fmt: skip


def unit_of(figure: str) -> str:
    """The unit of a figure in tables."""
    return UNITS.get(figure, "%")


def title_of(figure: str) -> str:
    """The title of a figure in tables."""
    return TITLES.get(figure, figure.replace("_", " "))


def family_of(task: str, kind: Kind) -> str:
    """Remove seeds and the axes of the kind: tasks of one family share their tables.

    >>> family_of("group-fairness@1(k=8, mu=0.1, seed=3) & (severity <= 1.0)", KINDS[1])
    'group-fairness & (severity <= 1.0)'
    """
    parts = []
    for name, params in steps_of(task):
        left = [f"{key}={value!r}" for key, value in params.items() if key not in ("seed", *kind.axes)]
        parts.append(f"{name}({', '.join(left)})" if left else name)
    return clean(" & ".join(parts))


def kind_of(task: str) -> Kind:
    """The kind of a task.

    >>> kind_of("group-fairness@1(k=8, mu=0.1, seed=0)").main
    'worst'
    """
    names = {name for name, _ in steps_of(task)}
    return next((kind for kind in KINDS if not names.isdisjoint(kind.protocols)), OTHER)


def capital(text: str) -> str:
    """Capitalise the first letter alone."""
    return f"{text[:1].upper()}{text[1:]}"


def clean(text: str) -> str:
    """A name on one line, without control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
