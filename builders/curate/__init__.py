"""Styles of one's own as Stylized Meta-Album curated its (appendices C and D): get, label, filter, measure.

Every step reads and writes one folder: `<style>/<picture>` with the table `styles.tsv`, which says where each
picture is from.
"""
