"""Images: the order of their dimensions, grids of several images, and the formats PNG and GIF."""

import io
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from tensorboard.compat.proto.summary_pb2 import Summary


def scale(array: np.ndarray) -> int:
    """What elements are multiplied by: bytes are brightness from 0 to 255, other numbers from 0 to 1."""
    return 1 if array.dtype == np.uint8 else 255


def to_bytes(array: np.ndarray) -> np.ndarray:
    """The brightness of elements, from 0 to 255."""
    return (array.astype(np.float32) * scale(array)).clip(0, 255).astype(np.uint8)


def channels_last(array: np.ndarray, order: str) -> np.ndarray:
    """An image of height, width and channels. Several images become a grid, and one channel three.

    Raises:
        AssertionError: `order` has a letter twice or another number of letters than `array` has dimensions.
    """
    order = order.upper()
    if len(set(order)) != len(order):
        raise AssertionError(f"You can not use the same dimension shorthand twice. input_format: {order}")
    if array.ndim != len(order):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {array.shape}, input_format: {order}"
        )
    if len(order) == 4:
        return grid(array.transpose([order.index(letter) for letter in "NHWC"]))
    if len(order) == 3:
        array = array.transpose([order.index(letter) for letter in "HWC"])
        return np.concatenate([array] * 3, 2) if array.shape[2] == 1 else array
    array = array.transpose([order.index(letter) for letter in "HW"])
    return np.stack([array] * 3, 2)


def grid(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """Images of one size beside and below each other, `columns` in a row. Shape (N, H, W, C) becomes (rows, width, 3)."""
    if images.shape[3] == 1:
        images = np.concatenate([images] * 3, 3)
    count, height, width, channels = images.shape
    columns = min(count, columns)
    rows = -(-count // columns)
    canvas = np.zeros((rows * columns, height, width, channels), images.dtype)
    canvas[:count] = images
    canvas = canvas.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return canvas.reshape(rows * height, columns * width, channels)


def png(array: np.ndarray, rescale: float = 1, boxes: np.ndarray | None = None, labels: Any = None) -> Summary.Image:
    """An image of TensorBoard, from bytes of shape (H, W, C); `boxes` are drawn on it, with their `labels`."""
    height, width, channels = array.shape
    image = Image.fromarray(array.squeeze(2) if channels == 1 else array)
    if boxes is not None:
        for number, (left, top, right, bottom) in enumerate(boxes):
            box = ImageDraw.Draw(image)
            box.line([(left, top), (left, bottom), (right, bottom), (right, top), (left, top)], width=2, fill="Red")
            if labels is not None:
                x0, y0, x1, y1 = box.textbbox((left, bottom), labels[number], anchor="lb")
                box.rectangle((x0, y0, x1 + 1, y1 + 1), fill="Red")
                box.text((left, bottom), labels[number], fill="black", anchor="lb")
    image = image.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS)
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=_encode(image, "PNG"))


def _encode(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def gif(videos: np.ndarray, frames_per_second: float) -> Summary.Image:
    """A moving image: videos of shape (N, T, C, H, W), beside and below each other."""
    columns = 1
    while columns**2 < len(videos):
        columns *= 2
    frames = [to_bytes(grid(moment.transpose(0, 2, 3, 1), columns)) for moment in videos.swapaxes(0, 1)]
    height, width, channels = frames[0].shape
    first, *others = [Image.fromarray(frame) for frame in frames]
    data = _encode(first, "GIF", save_all=True, append_images=others, duration=1000 / frames_per_second, loop=0)
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=data)
