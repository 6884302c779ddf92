from .pipeline import CODE as CODE
from .pipeline import PAPER as PAPER
from .pipeline import Diffusion as Diffusion
from .slider import Slider as Slider
from .slider import read_slider as read_slider
from .slider import slider_file as slider_file
from .training import Training as Training
from .training import train as train
