//! Transforms of windows that move along a signal, and back.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result, Scalar};

use super::Scale;
use super::kernel::{C2C, C2R, R2C};
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::op;
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Args, Ints, Output, Value};
use crate::view::reshape::sizes_value;

pub static STFT: Row = Row {
    name: "stft",
    variants: Variants::BOTH,
    signature: "(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    doc: "The Fourier transforms of a window that moves along signals: frequencies by windows.

The window steps by `hop_length` (`n_fft // 4` by default); `center` continues the signal at both ends by half a window.

    >>> torch.stft(torch.ones(8), 4, return_complex=True).shape
    torch.Size([3, 9])",
    dtypes: DTypes::DENSE,
    run: Run::Compose(|args| stft(args).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &[
        "t(12), 4, return_complex=True",
        "t(2, 12), 4, 2, 3, pos(3), return_complex=True",
        "t(12), 4, center=False, normalized=True, onesided=False, return_complex=True",
    ],
    errors: &[("t(2, 2, 8), 4, return_complex=True, center=False", "RuntimeError", "stft(torch.")],
    ..Row::BASE
};

pub static ISTFT: Row = Row {
    name: "istft",
    variants: Variants::BOTH,
    signature: "(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
    doc: "The inverse of `torch.stft`: windows are added where they overlap, and divided by the squares of the window that met there.

    >>> x = torch.arange(8.)
    >>> y = torch.istft(torch.stft(x, 4, return_complex=True), 4)
    >>> torch.allclose(x, y, atol=1e-5)
    True",
    dtypes: DTypes::COMPLEX,
    run: Run::Compose(|args| istft(args).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["t(3, 9), 4", "t(2, 3, 9), 4, 2, 4, length=12"],
    errors: &[("torch.zeros(3, 5), 4", "RuntimeError", "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")],
    ..Row::BASE
};

/// What both read of their arguments.
struct Frame {
    n_fft: isize,
    hop: isize,
    width: isize,
}

impl Frame {
    fn of(args: &Args) -> Result<Frame> {
        let n_fft = args.int(1)?;
        let hop = args.optional_int(2).unwrap_or(n_fft / 4);
        let width = args.optional_int(3).unwrap_or(n_fft);
        Ok(Frame { n_fft: n_fft as isize, hop: hop as isize, width: width as isize })
    }

    /// The window in the middle of `n_fft` elements; nothing where it is all ones.
    fn window(&self, args: &Args) -> Result<Option<Tensor>> {
        let window = match args.optional_tensor(4) {
            Some(window) => window.clone(),
            None if self.width == self.n_fft => return Ok(None),
            None => {
                let own = args.tensor(0)?;
                crate::create::full(&[self.width], Scalar::ONE, own.dtype().to_real(), own.device())?
            }
        };
        let left = ((self.n_fft - self.width) / 2) as i64;
        let right = (self.n_fft - self.width) as i64 - left;
        if left == 0 && right == 0 {
            return Ok(Some(window));
        }
        crate::join::pad::CONSTANT_PAD.tensor([(&window).into(), Ints::from_slice(&[left, right]).into()]).map(Some)
    }
}

/// A window as torch's messages print it.
fn shown(window: Option<&Tensor>) -> String {
    match window {
        None => "None".into(),
        Some(window) => {
            let sizes: Vec<String> = window.sizes().iter().map(isize::to_string).collect();
            format!("torch.{}Tensor{{[{}]}}", window.dtype().title(), sizes.join(", "))
        }
    }
}

fn number(flag: Option<bool>) -> String {
    flag.map_or("None".into(), |flag| u8::from(flag).to_string())
}

fn stft(args: &Args) -> Result<Tensor> {
    let input = args.tensor(0)?;
    let frame = Frame::of(args)?;
    let window = args.optional_tensor(4);
    let (normalized, onesided) = (args.bool(7)?, args.optional_bool(8));
    let (return_complex, aligned) = (args.optional_bool(9), args.optional_bool(10));
    if args.bool(5)? && aligned.is_some() {
        return Err(Error::runtime("stft align_to_window should only be set when center = false"));
    }
    let mut signal = input.clone();
    if args.bool(5)? && (1..=2).contains(&input.rank()) {
        // Padding by reflection wants a batch and channels.
        let mut sizes = vec![1; 3 - input.rank()];
        sizes.extend(input.sizes());
        let pad = (frame.n_fft / 2) as i64;
        let shaped = crate::view::RESHAPE.tensor([input.into(), sizes_value(&sizes)])?;
        let mode = args.str(6)?;
        let padded =
            crate::join::pad::PAD.tensor([(&shaped).into(), Ints::from_slice(&[pad, pad]).into(), mode.into()])?;
        let sizes: Vec<isize> = padded.sizes()[3 - input.rank()..].to_vec();
        signal = crate::view::RESHAPE.tensor([(&padded).into(), sizes_value(&sizes)])?;
    }
    let refused = |reason: String| {
        let sizes: Vec<String> = signal.sizes().iter().map(isize::to_string).collect();
        Error::runtime(format!(
            "stft(torch.{}Tensor[{}], n_fft={}, hop_length={}, win_length={}, window={}, normalized={}, onesided={}, return_complex={}, align_to_window={}) : {reason}",
            signal.dtype().title(),
            sizes.join(", "),
            frame.n_fft,
            frame.hop,
            frame.width,
            shown(window),
            u8::from(normalized),
            number(onesided),
            number(return_complex),
            number(aligned),
        ))
    };
    let complex = input.dtype().is_complex() || window.is_some_and(|window| window.dtype().is_complex());
    if return_complex.is_none() && !complex {
        return Err(Error::runtime(
            "stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True in a future PyTorch release.",
        ));
    }
    if !input.dtype().is_differentiable() {
        return Err(refused("expected a tensor of floating point or complex values".into()));
    }
    if signal.rank() != 1 && signal.rank() != 2 {
        return Err(refused("expected a 1D or 2D tensor".into()));
    }
    let length = signal.sizes()[signal.rank() - 1];
    if frame.n_fft <= 0 || frame.n_fft > length {
        return Err(refused(format!("expected 0 < n_fft < {length}, but got n_fft={}", frame.n_fft)));
    }
    if frame.hop <= 0 {
        return Err(refused(format!("expected hop_length > 0, but got hop_length={}", frame.hop)));
    }
    if frame.width <= 0 || frame.width > frame.n_fft {
        return Err(refused(format!("expected 0 < win_length <= n_fft, but got win_length={}", frame.width)));
    }
    if let Some(window) = window
        && window.sizes().as_slice() != [frame.width]
    {
        return Err(refused(format!(
            "expected a 1D window tensor of size equal to win_length={}, but got window with size {}",
            frame.width,
            Shape(window.sizes())
        )));
    }
    if aligned == Some(true) {
        return Err(Error::not_implemented("stft(): align_to_window=True is not implemented"));
    }
    let onesided = onesided.unwrap_or(!complex);
    if onesided && complex {
        return Err(Error::runtime("Cannot have onesided output if window or input is complex"));
    }
    let frames = crate::view::unfold::UNFOLD.tensor([
        (&signal).into(),
        (-1i64).into(),
        Value::Int(frame.n_fft as i64),
        Value::Int(frame.hop as i64),
    ])?;
    let frames = match frame.window(args)? {
        Some(window) => (Expr::from(frames) * window).done()?,
        None => frames,
    };
    let scale = if normalized { Scale::Root } else { Scale::Nothing }.number();
    let last = || Ints::from_slice(&[-1]);
    let found = match frames.dtype().is_complex() {
        true => op!(C2C, &frames, last(), scale, true)?,
        false => op!(R2C, &frames, last(), scale, onesided)?,
    };
    let turned = Expr::from(found).transposed().done()?;
    if return_complex.unwrap_or(true) { Ok(turned) } else { op!(crate::view::complex::VIEW_AS_REAL, &turned) }
}

fn istft(args: &Args) -> Result<Tensor> {
    let input = args.tensor(0)?;
    let frame = Frame::of(args)?;
    let window = args.optional_tensor(4);
    let (center, normalized, onesided) = (args.bool(5)?, args.bool(6)?, args.optional_bool(7));
    let (length, return_complex) = (args.optional_int(8), args.bool(9)?);
    if !input.dtype().is_complex() {
        return Err(Error::runtime(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.",
        ));
    }
    let refused = |reason: String| {
        let sizes: Vec<String> = input.sizes().iter().map(isize::to_string).collect();
        Error::runtime(format!(
            "istft(CPU{}Type[{}], n_fft={}, hop_length={}, win_length={}, window={}, center={}, normalized={}, onesided={}, length={}, return_complex={}) : {reason}",
            input.dtype().title(),
            sizes.join(", "),
            frame.n_fft,
            frame.hop,
            frame.width,
            shown(window),
            u8::from(center),
            u8::from(normalized),
            number(onesided),
            length.map_or("None".into(), |length| length.to_string()),
            u8::from(return_complex),
        ))
    };
    if input.numel() == 0 {
        return Err(refused("input tensor cannot be empty.".into()));
    }
    if input.rank() != 2 && input.rank() != 3 {
        return Err(refused(format!("expected a tensor with 3 or 4 dimensions, but got {}", input.rank() + 1)));
    }
    let [bins, frames] = crate::linalg::dense::matrix_sizes(input);
    let onesided = onesided.unwrap_or(bins != frame.n_fft);
    let wanted = if onesided { frame.n_fft / 2 + 1 } else { frame.n_fft };
    if bins != wanted {
        let (name, flag) = if onesided { ("n_fft / 2 + 1", "True") } else { ("n_fft", "False") };
        return Err(refused(format!(
            "expected the frequency dimension (3rd to the last) of the input tensor to match {name} when onesided={flag}, but got {bins}"
        )));
    }
    if frame.hop <= 0 || frame.hop > frame.width {
        return Err(refused("expected 0 < hop_length <= win_length".into()));
    }
    if frame.width <= 0 || frame.width > frame.n_fft {
        return Err(refused("expected 0 < win_length <= n_fft".into()));
    }
    if window.is_some_and(|window| window.sizes().as_slice() != [frame.width]) {
        return Err(refused("Invalid window shape. window has to be 1D and length of `win_length`".into()));
    }
    let complex = window.is_some_and(|window| window.dtype().is_complex());
    if onesided && (return_complex || complex) {
        return Err(Error::runtime("Cannot have onesided output if window or input is complex"));
    }
    let scale = if normalized { Scale::Root } else { Scale::Whole }.number();
    let last = || Ints::from_slice(&[-1]);
    let batch = if input.rank() == 3 { input.sizes()[0] } else { 1 };
    let columns = Expr::from(input).transposed();
    let windows = match return_complex {
        true => op!(C2C, &columns.done()?, last(), scale, false)?,
        false => {
            let half = columns.part(-1, 0, frame.n_fft / 2 + 1).done()?;
            op!(C2R, &half, last(), scale, frame.n_fft as i64)?
        }
    };
    let window = match frame.window(args)? {
        Some(window) => window,
        None => crate::create::full(&[frame.n_fft], Scalar::ONE, input.dtype().to_real(), input.device())?,
    };
    let windows = (Expr::from(windows) * &window).done()?;
    let whole = frame.n_fft + frame.hop * (frames - 1);
    let added = |windows: &Tensor, batch: isize| {
        let sizes = Ints::from_slice(&[batch as i64, whole as i64]);
        let strides = Ints::from_slice(&[whole as i64, frame.hop as i64, 1]);
        let shaped = crate::view::RESHAPE.tensor([windows.into(), sizes_value(&[batch, frames, frame.n_fft])])?;
        op!(crate::view::embed::EMBED, &shaped, sizes, strides, 0i64)
    };
    let squares = Expr::from(&window).square();
    let squares = squares.call(&crate::view::expand::EXPAND, [sizes_value(&[frames, frame.n_fft])]).done()?;
    let (signal, envelope) = (added(&windows, batch)?, added(&squares, 1)?);
    let start = if center { frame.n_fft / 2 } else { 0 };
    let end = match length {
        Some(length) => start + length as isize,
        None if center => whole - frame.n_fft / 2,
        None => whole,
    };
    let kept = end.min(whole).max(start) - start;
    let (signal, envelope) =
        (Expr::from(signal).part(-1, start, kept), Expr::from(envelope).part(-1, start, kept).done()?);
    if envelope.numel() > 0 && envelope.device() == rushlight_core::Device::Cpu {
        let smallest = Expr::from(envelope.detach()).abs().call(&crate::reduce::extreme::MIN, []).done()?;
        let smallest = crate::item(&smallest)?;
        if smallest.f64() < 1e-11 {
            return Err(refused("window overlap add min: 1".into()));
        }
    }
    let mut result = (signal / envelope).done()?;
    if end > whole {
        crate::host::warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please check your center and hop_length settings.",
        )?;
        let missing = Ints::from_slice(&[0, (end - whole) as i64]);
        result = crate::join::pad::CONSTANT_PAD.tensor([(&result).into(), missing.into()])?;
    }
    if input.rank() == 2 { op!(crate::view::squeeze::SQUEEZE_DIM, &result, 0i64) } else { Ok(result) }
}
