"""Greetings and farewells in four languages; the same sentence with another name is another text."""

import csv
from pathlib import Path

WORDS = {
    ("de", "farewell"): ("Auf Wiedersehen", "Tschüss", "Bis bald"),
    ("de", "greeting"): ("Guten Tag", "Hallo", "Grüß Gott"),
    ("en", "farewell"): ("Goodbye", "So long", "See you"),
    ("en", "greeting"): ("Good day", "Hello", "Welcome"),
    ("fr", "farewell"): ("Au revoir", "À bientôt", "Adieu"),
    ("fr", "greeting"): ("Bonjour", "Salut", "Bienvenue"),
    ("zh", "farewell"): ("再见", "拜拜", "回头见"),
    ("zh", "greeting"): ("你好", "您好", "欢迎"),
}
NAMES = ("Ada", "Bo", "Chi", "Dée", 'E. "Ed" Fox', "Fu, Li", "Gül")


def make(folder: Path) -> None:
    with (folder / "sentences.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["sentence", "kind", "language", "name"])
        for (language, kind), words in WORDS.items():
            writer.writerows([f"{word}, {name}!", kind, language, name] for word in words for name in NAMES)
