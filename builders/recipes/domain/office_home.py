"""Office-Home: things of office and home in four domains."""

from builders.raw.album import RawAlbum
from builders.raw.domain_class import DomainClass, spelled
from builders.raw.domain_recipe import domain_recipe
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

DOMAINS = ("Art", "Clipart", "Product", "Real World")

#: In the order of the lists of CDAN and TLlib, by which papers on adaptation number the classes. A reader
#: that sorts folders has another order.
NAMES = """
Drill Exit_Sign Bottle Glasses Computer File_Cabinet Shelf Toys Sink Laptop Kettle Folder Keyboard
Flipflops Pencil Bed Hammer ToothBrush Couch Bike Postit_Notes Mug Webcam Desk_Lamp Telephone Helmet
Mouse Pen Monitor Mop Sneakers Notebook Backpack Alarm_Clock Push_Pin Paper_Clip Batteries Radio Fan
Ruler Pan Screwdriver Trash_Can Printer Speaker Eraser Bucket Chair Calendar Calculator Flowers
Lamp_Shade Spoon Candles Clipboards Scissors TV Curtains Fork Soda Table Knives Oven Refrigerator Marker
"""
LABELS = tuple(NAMES.split())

RECIPE = domain_recipe(
    creators=("Hemanth Venkateswara", "Jose Eusebio", "Shayok Chakraborty", "Sethuraman Panchanathan"),
    title="Office-Home",
    summary=(
        "Things of office and home in art, clip art, pictures of products and photographs; 65 classes, "
        "numbered as in the lists of CDAN and TLlib."
    ),
    citation=(
        "H. Venkateswara, J. Eusebio, S. Chakraborty, S. Panchanathan. Deep hashing network for unsupervised "
        "domain adaptation. CVPR 2017."
        f" {CITED}"
    ),
    album=RawAlbum(
        name="office_home",
        layout=DomainClass(domains=spelled(*DOMAINS), labels=spelled(*LABELS)),
        allowed=LABELS,
        license="LicenseRef-Office-Home-fair-use",
        attribution="Office-Home (Venkateswara et al., 2017); fair use, for research that is not commercial",
    ),
    domains=DOMAINS,
    in_domainbed=True,
    more=canonical("office_home"),
)
