"""Heart disease, Adult, COMPAS and multi-domain sentiment in small, with the odd cells of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.builders.replicas.drawing import put
from tests.builders.replicas.wilds import table

HOSPITALS = {
    "cleveland": "cleveland",
    "hungary": "hungarian",
    "switzerland": "switzerland",
    "va_long_beach": "va",
}
MEASURES = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,target"
SEXES, RACES = (
    ("Female", "Male"),
    ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"),
)
PRODUCTS = ("books", "dvd", "electronics", "kitchen_&_housewares")


def heart(root: Path, each: int = 24, unknown: str = "?") -> Mapping[str, int]:
    """`each` patients a hospital, without a header; Cleveland writes whole numbers with a point."""
    for at, (hospital, file) in enumerate(HOSPITALS.items()):
        point = ".0" if hospital == "cleveland" else ""
        rows = [
            f"{30 + number}{point},{number % 2}{point},{1 + number % 4}{point},{120 + at},{200 + number},"
            f"{unknown},{number % 3},150,{number % 2},{number / 10},{1 + number % 3},{unknown},"
            f"{unknown if number % 3 else f'{3 + 3 * (number % 2)}{point}'},{number % 5}"
            for number in range(each)
        ]
        put(root, f"processed.{file}.data", "\n".join(rows) + "\n")
    put(root, "reprocessed.hungarian.data", "40 1 2\n")
    return dict.fromkeys(HOSPITALS, each)


def adult(root: Path, each: int = 24) -> Mapping[str, int]:
    """`each` persons of a sex and race; a comment first and labels with full stops in one file."""
    groups = [(sex, race) for sex in SEXES for race in RACES]
    for part, end in (("data", ""), ("test", ".")):
        rows = []
        for at, (sex, race) in enumerate(groups):
            for number in range(each // 2):
                job = "?" if number == 1 else "Private"
                person = (
                    f"{20 + number + 20 * bool(end)}, {job}, {77000 + number}, Bachelors, 13, Never-married"
                )
                income = f"{'>' if number % 2 else '<='}50K{end}"
                work = f"Sales, Own-child, {race}, {sex}, {at}, 0, 40, United-States, {income}"
                rows.append(f"{person}, {work}")
        put(root, f"adult.{part}", ("|1x3 Cross validator\n" if end else "") + "\n".join(rows) + "\n\n")
    return {f"{sex} {race}": each for sex in SEXES for race in RACES}


def compas(root: Path, each: int = 12) -> Mapping[str, int]:
    """`each` defendants of a race; one for each condition that ProPublica's filter leaves out."""
    header = (
        *("id", "name", "sex", "dob", "age", "race", "juv_fel_count", "decile_score", "juv_misd_count"),
        *("juv_other_count", "priors_count", "days_b_screening_arrest", "c_charge_degree", "is_recid"),
        *("decile_score", "score_text", "priors_count", "two_year_recid"),
    )
    rows: list[tuple[object, ...]] = [header]
    races = ("African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other")

    def add(race: str, days: object = -1, degree: str = "F", again: int = 0, score: str = "Low") -> None:
        at = len(rows)
        person = (at, f"A. Name {at}", ("Male", "Female")[at % 2], "1980-01-01", 18 + at, race)
        rows.append((*person, 0, 3, 0, 1, at % 7, days, degree, again, 3, score, at % 7, max(again, 0)))

    for race in races:
        for number in range(each):
            add(race, again=number % 2)
    add("Other", days="")
    add("Other", days=31)
    add("Other", degree="O")
    add("Other", again=-1)
    add("Other", score="N/A")
    put(root, "compas-scores-two-years.csv", table(rows))
    put(root, "compas-scores.csv", "id,name\n1,x\n")
    return dict.fromkeys(races, each)


def sentiment(root: Path, each: int = 16) -> Mapping[str, int]:
    """`each` reviews of a product and rating; authors of several, a review twice, one without an author."""
    for product in PRODUCTS:
        for at, rated in enumerate(("negative", "positive")):
            records = []
            for number in range(each):
                reviewer = (
                    ""
                    if number == 1
                    else f"A. Reader {number}"
                    if number < 5
                    else f"{product} {rated} {number}"
                )
                text = f"Good & <bad>,\nsaid {product} {rated} {number if number != 3 else 2}."
                records.append(
                    f"<review>\n<unique_id>\n{number}\n</unique_id>\n<unique_id>\n{number}:{reviewer}\n</unique_id>\n"
                    f"<rating>\n{1 + 4 * at}.0\n</rating>\n<reviewer>\n{reviewer}\n</reviewer>\n"
                    f"<review_text>\n{text}\n</review_text>\n</review>\n"
                )
            put(root, f"sorted_data_acl/{product}/{rated}.review", "".join(records))
        put(root, f"sorted_data_acl/{product}/unlabeled.review", "<review>\n</review>\n")
    return Counter({product.partition("_")[0]: 2 * each for product in PRODUCTS})


REPLICAS = {"adult": adult, "compas": compas, "heart": heart, "sentiment": sentiment}
