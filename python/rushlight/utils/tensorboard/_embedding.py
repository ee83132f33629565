"""The files of TensorBoard's projector: points, their names and their pictures."""

import math
import os
from typing import Any

import numpy as np
from google.protobuf import text_format
from PIL import Image
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

from rushlight.utils.tensorboard import _images


def write_points(points: np.ndarray, folder: str) -> None:
    """Writes one point in a line."""
    with open(os.path.join(folder, "tensors.tsv"), "w") as file:
        for point in points:
            file.write("\t".join(map(str, point.tolist())) + "\n")


def write_names(names: list[Any], folder: str, header: list[str] | None) -> None:
    """Writes a name, or several if there is a header, in a line for each point."""
    if header:
        if len(header) != len(names[0]):
            raise AssertionError("len of header must be equal to the number of columns in metadata")
        lines = ["\t".join(map(str, line)) for line in [header, *names]]
    else:
        lines = [str(name) for name in names]
    with open(os.path.join(folder, "metadata.tsv"), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def write_pictures(pictures: np.ndarray, folder: str) -> None:
    """Writes square pictures of shape (N, C, H, H) into one image."""
    if pictures.shape[2] != pictures.shape[3]:
        raise AssertionError("Image should be square, see tensorflow/tensorboard#670")
    columns = math.ceil(math.sqrt(len(pictures)))
    padded = np.zeros((columns**2, *pictures.shape[1:]), pictures.dtype)
    padded[: len(pictures)] = pictures
    sprite = _images.to_bytes(_images.grid(padded.transpose(0, 2, 3, 1), columns))
    Image.fromarray(sprite).save(os.path.join(folder, "sprite.png"))


def describe(tag: str, folder: str, pictures: np.ndarray | None, named: bool) -> EmbeddingInfo:
    """What the projector shows: paths below the folder of the run."""
    info = EmbeddingInfo(tensor_name=tag, tensor_path=f"{folder}/tensors.tsv")
    if named:
        info.metadata_path = f"{folder}/metadata.tsv"
    if pictures is not None:
        info.sprite.image_path = f"{folder}/sprite.png"
        info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    return info


def write_config(config: ProjectorConfig, folder: str) -> None:
    """Writes the list of everything that the projector shows."""
    with open(os.path.join(folder, "projector_config.pbtxt"), "w") as file:
        file.write(text_format.MessageToString(config))
