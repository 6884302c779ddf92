"""Running means of the weights: plain (EoA; Arpit et al., NeurIPS 2022) and exponential."""

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses.averages import flat
from shiftdata.baselines.method import Data, Hyper, Stage
from shiftdata.baselines.methods.averages import Averaged, statistics
from shiftdata.baselines.networks import Network


class EoA(Averaged):
    """Any method, validated and used with `losses.WeightAverage` of weights and batch norm's statistics."""

    average: losses.WeightAverage | losses.EMA
    start = Hyper(100, low=1, high=1000, log=True, source="Arpit et al.: 100 of 5,000 steps")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.average = losses.WeightAverage(self.averaged(), int(self.start))

    def averaged(self) -> list[Tensor]:
        return super().averaged() + statistics(self.network)

    def predict(self, x: Tensor) -> Tensor:
        with self.average.applied(self.averaged()):
            return super().predict(x)

    def predict_source(self, x: Tensor) -> Tensor:
        with self.average.applied(self.averaged()):
            return super().predict_source(x)


class EMA(EoA):
    """Any method, validated and used with `losses.EMA` of its weights and batch norm's statistics."""

    start = 0.0
    decay = Hyper(0.999, low=0.9, high=0.9999, log=True, source="Tarvainen and Valpola, 2017")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.average = losses.EMA(self.averaged(), self.decay, warm_up=True)

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        super().begin(stage, trainer)
        self.average.average.copy_(flat(self.averaged()))  # a moving average begins where the weights do
