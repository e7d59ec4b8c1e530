"""One calibration for all tests that hold predictions against runs of this machine."""

from __future__ import annotations

import pytest

from lab_utils.estimate.hardware.calibration import load_calibration
from lab_utils.measure.calibrate import main


@pytest.fixture(scope="session")
def calibration(tmp_path_factory):
    """With one and two ranks, once over: what `doctor --calibrate` does twice over, with four as
    well."""
    kept = tmp_path_factory.mktemp("calibration") / "calibration.json"
    main([str(kept)], ranks=(1, 2), rounds=1)
    return load_calibration(kept)
