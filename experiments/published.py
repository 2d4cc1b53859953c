"""The paper's figures (Rao et al., 2025), to be set beside ours."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A line of a table of the paper: median ARI, clusters, seconds of wall-clock, cores."""

    ari: float
    clusters: float
    seconds: float
    cores: int


# Table globalmergeresultsfull: (rows or scenario, batches, method).
GLOBAL_MERGE: dict[tuple[str, int, str], Published] = {
    ("20000", 5, "full"): Published(0.943, 12, 106, 1),
    ("20000", 5, "par"): Published(0.943, 12, 37.0, 5),
    ("20000", 5, "greedy"): Published(0.920, 12, 33.1, 5),
    ("20000", 5, "random"): Published(0.920, 12, 33.2, 5),
    ("50000", 5, "full"): Published(0.947, 12, 467, 1),
    ("50000", 5, "par"): Published(0.948, 12, 176, 5),
    ("50000", 5, "greedy"): Published(0.945, 13, 114, 5),
    ("50000", 5, "random"): Published(0.945, 12, 114, 5),
    ("50000", 10, "full"): Published(0.957, 12, 465, 1),
    ("50000", 10, "par"): Published(0.956, 12, 126, 10),
    ("50000", 10, "greedy"): Published(0.951, 13, 70.6, 10),
    ("50000", 10, "random"): Published(0.951, 12, 71.3, 10),
    ("100000", 5, "full"): Published(0.955, 12, 956, 1),
    ("100000", 5, "par"): Published(0.954, 12, 338, 5),
    ("100000", 5, "greedy"): Published(0.954, 13, 260, 5),
    ("100000", 5, "random"): Published(0.954, 12, 260, 5),
    ("100000", 10, "par"): Published(0.949, 12, 249, 10),
    ("100000", 10, "greedy"): Published(0.948, 13, 131, 10),
    ("100000", 10, "random"): Published(0.948, 12, 132, 10),
    ("200000", 10, "par"): Published(0.952, 12, 482, 10),
    ("200000", 10, "greedy"): Published(0.951, 13, 269, 10),
    ("200000", 10, "random"): Published(0.951, 12.5, 270, 10),
    ("500000", 10, "par"): Published(0.950, 12, 1121, 10),
    ("500000", 10, "greedy"): Published(0.949, 13, 685, 10),
    ("500000", 10, "random"): Published(0.949, 12.5, 688, 10),
    ("1000000", 20, "par"): Published(0.948, 12, 2119, 20),
    ("1000000", 20, "greedy"): Published(0.948, 13.5, 899, 20),
    ("1000000", 20, "random"): Published(0.948, 14, 912, 20),
    ("a", 10, "par"): Published(0.945, 12, 119, 10),
    ("a", 10, "random"): Published(0.942, 13, 64.5, 10),
    ("b", 5, "par"): Published(0.955, 10, 169, 5),
    ("b", 5, "random"): Published(0.993, 10, 131, 5),
    ("c", 5, "par"): Published(0.950, 12, 69.5, 5),
    ("c", 5, "random"): Published(0.988, 13, 53.2, 5),
}

# Mean seconds of the global merge alone (section 6.1.2): (rows, search).
MERGE_SECONDS: dict[tuple[int, str], float] = {
    (20_000, "greedy"): 0.29,
    (20_000, "random"): 0.39,
    (500_000, "greedy"): 14.8,
    (500_000, "random"): 18.2,
}

# Table globalmergeresultscat, median seconds of the global merge: (rows, search).
CATEGORICAL_MERGE_SECONDS: dict[tuple[int, str], float] = {
    (20_000, "random"): 3.91,
    (50_000, "random"): 1.29,
    (100_000, "random"): 2.57,
}

# Table globalmergeresultsP: (variables, method).
VARYING_P: dict[tuple[int, str], Published] = {
    (60, "par"): Published(0.782, 10, 206, 5),
    (60, "random"): Published(0.780, 10, 153, 5),
    (80, "par"): Published(0.874, 10, 285, 5),
    (80, "random"): Published(0.872, 10, 190, 5),
    (120, "par"): Published(0.972, 10, 316, 5),
    (120, "random"): Published(0.972, 10, 208, 5),
    (200, "par"): Published(0.999, 10, 465, 5),
    (200, "random"): Published(0.999, 10, 295, 5),
}

# Table globalmergeresultscat: (rows, method).
CATEGORICAL: dict[tuple[int, str], Published] = {
    (20_000, "full"): Published(0.999, 20, 387, 1),
    (20_000, "par"): Published(0.999, 20, 146, 4),
    (20_000, "random"): Published(0.998, 20, 124, 4),
    (50_000, "full"): Published(0.999, 10, 374, 1),
    (50_000, "par"): Published(0.999, 10, 127, 5),
    (50_000, "random"): Published(0.999, 10, 83.5, 5),
    (100_000, "full"): Published(1.0, 12, 946, 1),
    (100_000, "par"): Published(1.0, 12, 293, 5),
    (100_000, "random"): Published(0.999, 12, 243, 5),
}


class Laps(NamedTuple):
    """A line of tables tablesim_combined, tablesim45_combined or catsim_combined (means)."""

    seconds: float
    elbo: float
    ari: float
    clusters: float
    f1: float | None = None


# (simulation, laps); 10000 is no moves.
FREQUENCY: dict[tuple[str, int], Laps] = {
    ("1.1", 0): Laps(3.46, -25357, 0.856, 5.01),
    ("1.1", 1): Laps(6.35, -25354, 0.858, 5.00),
    ("1.1", 2): Laps(5.88, -25354, 0.858, 5.00),
    ("1.1", 5): Laps(6.75, -25354, 0.858, 5.00),
    ("1.1", 10): Laps(8.68, -25354, 0.858, 5.00),
    ("1.1", 10000): Laps(14.0, -25617, 0.823, 15.3),
    ("1.2", 0): Laps(10.9, -81256, 0.959, 7.65),
    ("1.2", 1): Laps(29.1, -81245, 0.962, 7.63),
    ("1.2", 2): Laps(23.4, -81238, 0.962, 7.70),
    ("1.2", 5): Laps(25.4, -81236, 0.963, 7.84),
    ("1.2", 10): Laps(31.0, -81260, 0.962, 8.54),
    ("1.2", 10000): Laps(47.5, -81721, 0.940, 18.0),
    ("1.3", 0): Laps(29.1, -164099, 0.953, 10.0),
    ("1.3", 1): Laps(57.1, -164090, 0.954, 10.0),
    ("1.3", 2): Laps(52.1, -164095, 0.954, 10.0),
    ("1.3", 5): Laps(61.8, -164100, 0.954, 10.2),
    ("1.3", 10): Laps(76.5, -164173, 0.953, 12.0),
    ("1.3", 10000): Laps(122, -164675, 0.943, 22.7),
    ("1.4", 0): Laps(16.9, -41913, 0.692, 7.53, 0.968),
    ("1.4", 1): Laps(91.7, -41848, 0.731, 7.86, 0.975),
    ("1.4", 2): Laps(75.6, -41838, 0.753, 8.10, 0.977),
    ("1.4", 5): Laps(74.4, -41823, 0.773, 8.48, 0.977),
    ("1.4", 10): Laps(92.7, -41831, 0.792, 9.16, 0.975),
    ("1.4", 10000): Laps(128, -42372, 0.782, 19.3, 0.935),
    ("1.5", 0): Laps(24.0, -61781, 0.561, 6.60, 0.947),
    ("1.5", 1): Laps(137, -61664, 0.625, 7.29, 0.957),
    ("1.5", 2): Laps(110, -61640, 0.651, 7.67, 0.959),
    ("1.5", 5): Laps(112, -61622, 0.679, 8.12, 0.958),
    ("1.5", 10): Laps(149, -61612, 0.710, 8.90, 0.954),
    ("1.5", 10000): Laps(213, -62204, 0.730, 19.3, 0.872),
    ("cat.1", 0): Laps(14.4, -238524, 0.961, 7.72),
    ("cat.1", 1): Laps(27.6, -238378, 0.994, 7.48),
    ("cat.1", 2): Laps(24.5, -238356, 0.995, 7.56),
    ("cat.1", 5): Laps(29.2, -238352, 0.995, 7.71),
    ("cat.1", 10): Laps(38.7, -238513, 0.986, 8.37),
    ("cat.1", 10000): Laps(79.2, -241501, 0.831, 20.0),
    ("cat.2", 0): Laps(34.8, -360586, 0.991, 10.1),
    ("cat.2", 1): Laps(47.0, -360544, 0.999, 10.0),
    ("cat.2", 2): Laps(49.8, -360544, 0.999, 10.0),
    ("cat.2", 5): Laps(66.1, -360568, 0.998, 10.2),
    ("cat.2", 10): Laps(91.1, -360795, 0.991, 12.1),
    ("cat.2", 10000): Laps(172, -312628, 0.939, 25.0),
}

# Table comparisontable: (scenario, method), median ARI.
FEDERATED: dict[tuple[str, str], float] = {
    ("20000", "FedEM, 10 clients"): 0.847,
    ("20000", "FedEM, 20 clients"): 0.906,
    ("20000", "approximate SNOB"): 0.699,
    ("20000", "FedMerDel random"): 0.920,
    ("50000", "FedEM, 25 clients"): 0.839,
    ("50000", "approximate SNOB"): 0.836,
    ("50000", "FedMerDel random"): 0.951,
    ("c", "FedEM, 10 clients"): 0.907,
    ("c", "approximate SNOB"): 0.502,
    ("c", "FedMerDel random"): 0.988,
}

# Table mnist_class: (model, run), per cent of each digit.
MNIST: dict[tuple[str, str], tuple[float, ...]] = {
    ("FedMerDel_rand", "4, best ELBO"): (
        81.4, 96.0, 83.8, 71.7, 51.7, 47.2, 92.5, 67.7, 70.2, 44.8),
    ("FedMerDel_30r", "1"): (91.8, 94.5, 85.7, 80.5, 54.5, 51.7, 94.3, 71.0, 68.8, 50.3),
    ("FedMerDel_30r", "2"): (88.6, 95.3, 85.8, 76.3, 56.3, 46.2, 93.2, 70.1, 69.0, 59.7),
    ("FedMerDel_30r", "3"): (91.3, 95.4, 85.2, 83.0, 59.8, 53.8, 93.1, 78.5, 65.2, 34.5),
    ("k-means_10_20", ""): (81.4, 97.8, 65.9, 74.6, 54.3, 31.1, 83.2, 70.8, 40.2, 39.9),
    ("k-means_10_35", ""): (86.5, 95.8, 73.5, 72.9, 77.6, 43.4, 86.7, 81.2, 49.5, 27.7),
    ("k-means_17_20", ""): (83.1, 98.6, 63.7, 60.9, 51.9, 33.4, 85.0, 79.7, 46.3, 32.6),
    ("k-means_17_35", ""): (91.5, 97.8, 68.3, 77.9, 62.1, 23.5, 83.6, 75.7, 57.0, 50.0),
    ("EM_20", ""): (82.1, 95.6, 83.7, 84.9, 62.2, 29.7, 91.8, 72.4, 57.4, 38.0),
    ("EM_35", ""): (87.6, 96.1, 90.2, 85.8, 51.8, 51.9, 94.8, 81.8, 72.3, 62.6),
    ("FedMerDel_rand", "1"): (83.4, 95.5, 83.7, 75.5, 49.6, 37.8, 90.4, 62.2, 65.6, 55.3),
    ("FedMerDel_rand", "2"): (84.1, 94.8, 86.3, 65.2, 54.8, 38.6, 90.1, 56.0, 67.3, 47.8),
    ("FedMerDel_rand", "3"): (86.4, 95.4, 85.8, 73.9, 47.6, 34.6, 92.7, 63.0, 64.4, 49.4),
    ("FedMerDel_rand", "5"): (82.7, 94.6, 83.4, 83.4, 57.7, 34.5, 92.0, 74.5, 52.4, 34.7),
    ("FedMerDel_greedy", "1"): (83.4, 95.5, 83.7, 75.5, 53.7, 37.8, 90.4, 62.2, 65.6, 51.4),
    ("FedMerDel_greedy", "2"): (84.1, 94.8, 86.3, 70.2, 54.8, 33.6, 90.1, 56.0, 64.5, 47.8),
    ("FedMerDel_greedy", "3"): (86.4, 95.4, 85.8, 73.9, 47.6, 34.6, 92.7, 63.0, 64.4, 49.4),
    ("FedMerDel_greedy", "4"): (81.4, 96.0, 83.8, 71.7, 51.7, 47.2, 92.5, 67.7, 70.2, 44.8),
    ("FedMerDel_greedy", "5"): (82.7, 94.6, 83.4, 83.4, 57.7, 34.5, 92.0, 74.5, 52.4, 34.6),
    ("FedMerDel_30g", "1"): (91.8, 94.5, 85.7, 80.5, 54.5, 51.7, 94.3, 69.0, 68.8, 52.9),
    ("FedMerDel_30g", "2"): (88.6, 95.3, 85.8, 74.9, 56.3, 44.8, 93.2, 70.1, 71.6, 59.7),
    ("FedMerDel_30g", "3"): (91.3, 95.4, 85.2, 84.2, 62.4, 53.8, 93.1, 76.9, 60.7, 34.5),
}  # fmt: skip
