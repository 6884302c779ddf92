"""DomainNet: the largest of the domain datasets, in its cleaned version."""

from builders.raw.album import RawAlbum
from builders.raw.domain_class import spelled
from builders.raw.domain_recipe import cuts_of_codes, domain_recipe
from builders.raw.domainnet import DomainNet
from shiftdata.evaluation.protocols import LeaveOneGroupOut, Listed
from shiftdata.evaluation.protocols.domains import GROUPS
from shiftdata.evaluation.protocols.rlsbench import CITED, canonical

DOMAINS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")

#: In the order of their numbers in the lists, which goes by letters alone: neither case nor `_`, `-` count.
NAMES = """
aircraft_carrier airplane alarm_clock ambulance angel animal_migration ant anvil apple arm asparagus axe
backpack banana bandage barn baseball baseball_bat basket basketball bat bathtub beach bear beard bed bee
belt bench bicycle binoculars bird birthday_cake blackberry blueberry book boomerang bottlecap bowtie
bracelet brain bread bridge broccoli broom bucket bulldozer bus bush butterfly cactus cake calculator
calendar camel camera camouflage campfire candle cannon canoe car carrot castle cat ceiling_fan cello
cell_phone chair chandelier church circle clarinet clock cloud coffee_cup compass computer cookie cooler
couch cow crab crayon crocodile crown cruise_ship cup diamond dishwasher diving_board dog dolphin donut door
dragon dresser drill drums duck dumbbell ear elbow elephant envelope eraser eye eyeglasses face fan feather
fence finger fire_hydrant fireplace firetruck fish flamingo flashlight flip_flops floor_lamp flower
flying_saucer foot fork frog frying_pan garden garden_hose giraffe goatee golf_club grapes grass guitar
hamburger hammer hand harp hat headphones hedgehog helicopter helmet hexagon hockey_puck hockey_stick horse
hospital hot_air_balloon hot_dog hot_tub hourglass house house_plant hurricane ice_cream jacket jail
kangaroo key keyboard knee knife ladder lantern laptop leaf leg light_bulb lighter lighthouse lightning line
lion lipstick lobster lollipop mailbox map marker matches megaphone mermaid microphone microwave monkey moon
mosquito motorbike mountain mouse moustache mouth mug mushroom nail necklace nose ocean octagon octopus
onion oven owl paintbrush paint_can palm_tree panda pants paper_clip parachute parrot passport peanut pear
peas pencil penguin piano pickup_truck picture_frame pig pillow pineapple pizza pliers police_car pond pool
popsicle postcard potato power_outlet purse rabbit raccoon radio rain rainbow rake remote_control rhinoceros
rifle river roller_coaster rollerskates sailboat sandwich saw saxophone school_bus scissors scorpion
screwdriver sea_turtle see_saw shark sheep shoe shorts shovel sink skateboard skull skyscraper sleeping_bag
smiley_face snail snake snorkel snowflake snowman soccer_ball sock speedboat spider spoon spreadsheet square
squiggle squirrel stairs star steak stereo stethoscope stitches stop_sign stove strawberry streetlight
string_bean submarine suitcase sun swan sweater swing_set sword syringe table teapot teddy-bear telephone
television tennis_racquet tent The_Eiffel_Tower The_Great_Wall_of_China The_Mona_Lisa tiger toaster toe
toilet tooth toothbrush toothpaste tornado tractor traffic_light train tree triangle trombone truck trumpet
t-shirt umbrella underwear van vase violin washing_machine watermelon waterslide whale wheel windmill
wine_bottle wine_glass wristwatch yoga zebra zigzag
"""
LABELS = tuple(NAMES.split())

RECIPE = domain_recipe(
    creators=("Xingchao Peng", "Qinxun Bai", "Xide Xia", "Zijun Huang", "Kate Saenko", "Bo Wang"),
    title="DomainNet, cleaned",
    summary=(
        "Clip art, infographics, paintings, quick drawings, photographs and sketches of 345 classes, without "
        "the duplicates of the first version."
    ),
    citation=(
        "X. Peng, Q. Bai, X. Xia, Z. Huang, K. Saenko, B. Wang. Moment matching for multi-source domain "
        "adaptation. ICCV 2019."
        f" {CITED}"
    ),
    album=RawAlbum(
        name="domainnet",
        layout=DomainNet(domains=spelled(*DOMAINS), labels=spelled(*LABELS)),
        allowed=LABELS,
        license="LicenseRef-DomainNet-fair-use",
        attribution="DomainNet (Peng et al., 2019); a fair-use notice, for research",
    ),
    domains=DOMAINS,
    first=tuple(LeaveOneGroupOut(group=group, groups="domainnet") for group in (1, 2, 3)),
    more=(
        *(Listed(test=domain, lists="train-test") for domain in DOMAINS),
        *cuts_of_codes(DOMAINS, GROUPS["domainnet"]),
        *canonical("domainnet"),
    ),
    pairs=(),
)
