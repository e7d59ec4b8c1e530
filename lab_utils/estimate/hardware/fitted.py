"""Constants that no data sheet gives: shares of a rate that training really reaches. Kind "fitted",
each with its source.

They are found by least squares on published throughputs; `tests/estimate/published.py` fits them
anew, prints what they predict for tables that they were not fitted on, and fails if these values
drift from its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fitted:
    """Shares of 1, and one size in elements.

    `matmul`: of the largest matrix-product rate that others measured (table.py) which products
    inside a training step reach when they are large; `half_size`: one side this short halves that
    (time/roofline.py). `hbm`: of the data sheet's memory bandwidth; not fitted but measured, a copy
    on one H200 at 4.3 of 4.8 TB/s. `wire`: of the link's and the network's.
    `overlap`: by this share of its time a message slows down the computing that it travels under.
    """

    matmul: float
    half_size: float
    hbm: float
    wire: float
    overlap: float = 0.0

    def fields(self) -> dict[str, float]:
        """The same as fields of a Cluster."""
        return {
            "matmul_efficiency": self.matmul,
            "matmul_half_size": self.half_size,
            "hbm_efficiency": self.hbm,
            "link_efficiency": self.wire,
            "network_efficiency": self.wire,
            "overlap_cost": self.overlap,
        }


# on tables 1 and 2 (PTD rows) of Narayanan et al. 2021 (SC21): 16 runs on A100-80GB, 1.7B to 1T
# parameters; overlap on the three ZeRO-3 rows of 175B in table 2, since the others overlap nothing
SC21 = Fitted(matmul=0.820, half_size=31.2, hbm=0.9, wire=0.771, overlap=0.351)
SOURCE = (
    "fitted on tables 1 and 2 of Narayanan et al. 2021 (SC21), A100-80GB; hbm: measured on one H200"
)
