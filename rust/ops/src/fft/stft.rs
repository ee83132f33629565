//! Short-time Fourier transforms: windows that move along a signal, and the inverse.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Ints, Output, Value, sizes_value};
use rushlight_dispatch::{create, handled, interpreter, op, vmap, warn_once};

use super::FftNorm;
use super::primitives::{C2C, C2R, R2C};
use crate::expr_ext::ExprExt;

#[operator]
pub static STFT: Operator = Operator {
    name: "stft",
    variants: Variants::BOTH,
    signature: "(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, truth center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    doc: "The Fourier transforms of a window that moves along signals: frequencies by windows.

The window moves in steps of `hop_length` (`n_fft // 4` by default); `center` pads the signal at both ends by half a window.

    >>> torch.stft(torch.ones(8), 4, return_complex=True).shape
    torch.Size([3, 9])",
    dtypes: DTypes::DENSE,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| stft(args).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(12), 4, return_complex=True",
        "t(2, 12), 4, 2, 3, pos(3), return_complex=True",
        "t(12), 4, center=False, normalized=True, onesided=False, return_complex=True",
    ],
    errors: &[("t(2, 2, 8), 4, return_complex=True, center=False", "RuntimeError", "stft(torch.")],
    ..Operator::BASE
};

#[operator]
pub static ISTFT: Operator = Operator {
    name: "istft",
    variants: Variants::BOTH,
    signature: "(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
    doc: "The inverse of `torch.stft`: overlapping windows are added, and divided by the sum of the squared windows.

    >>> x = torch.arange(8.)
    >>> y = torch.istft(torch.stft(x, 4, return_complex=True), 4)
    >>> torch.allclose(x, y, atol=1e-5)
    True",
    dtypes: DTypes::COMPLEX,
    implementation: Implementation::CompositeImplicit(|args| istft(args).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 9), 4", "t(2, 3, 9), 4, 2, 4, length=12"],
    errors: &[(
        "torch.zeros(3, 5), 4",
        "RuntimeError",
        "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.",
    )],
    ..Operator::BASE
};

/// The arguments that both operators have.
#[derive(Clone, Copy)]
struct Frame {
    n_fft: isize,
    hop: isize,
    width: isize,
}

impl Frame {
    fn of(args: &Args) -> Result<Frame> {
        use STFT::*;

        let n_fft = args.int(N_FFT)?;
        let hop = args.optional_int(HOP_LENGTH).unwrap_or(n_fft >> 2);
        let width = args.optional_int(WIN_LENGTH).unwrap_or(n_fft);
        Ok(Frame { n_fft: n_fft as isize, hop: hop as isize, width: width as isize })
    }

    /// The signal with zeros at both ends, so that the windows instead of the frames around them start where it does.
    fn widened(&self, signal: &Tensor) -> Result<Tensor> {
        let (side, length) = ((self.n_fft - self.width) / 2, signal.sizes()[signal.rank() - 1]);
        let frames = 1 + (length - self.width) / self.hop;
        let needed = (frames - 1) * self.hop + self.n_fft;
        if needed > length + 2 * side {
            return Err(Error::runtime(format!(
                "setStorage: {frames} frames of {} elements are out of bounds for a signal of {} elements",
                self.n_fft,
                length + 2 * side
            ))
            .hint("Choose a win_length that differs from n_fft by an even number."));
        }
        let padding = Ints::from_slice(&[side as i64, side as i64]);
        let padded = crate::join::pad::CONSTANT_PAD.tensor([signal.into(), padding.into()])?;
        op!(crate::view::narrow::NARROW, &padded, -1i64, 0i64, needed as i64)
    }

    /// The window in the middle of `n_fft` elements; `None` if it is all ones.
    fn window(&self, args: &Args) -> Result<Option<Tensor>> {
        use STFT::*;

        let window = match args.optional_tensor(WINDOW) {
            Some(window) => window.clone(),
            None if self.width == self.n_fft => return Ok(None),
            None => {
                let input = args.tensor(INPUT)?;
                create::full(&[self.width], Scalar::ONE, input.dtype().to_real(), input.device())?
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

/// A window in the format of torch's messages.
fn shown(window: Option<&Tensor>) -> String {
    match window {
        None => "None".into(),
        Some(window) => {
            let sizes: Vec<String> = window.sizes().iter().map(isize::to_string).collect();
            format!("{}{{[{}]}}", window.dtype().class_name(window.device()), sizes.join(", "))
        }
    }
}

fn number(flag: Option<bool>) -> String {
    flag.map_or("None".into(), |flag| u8::from(flag).to_string())
}

/// The arguments of `stft`.
struct Analysis<'a> {
    input: &'a Tensor,
    frame: Frame,
    window: Option<&'a Tensor>,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    aligned: Option<bool>,
}

impl<'a> Analysis<'a> {
    fn of(args: &'a Args) -> Result<Self> {
        use STFT::*;

        Ok(Analysis {
            input: args.tensor(INPUT)?,
            frame: Frame::of(args)?,
            window: args.optional_tensor(WINDOW),
            normalized: args.bool(NORMALIZED)?,
            onesided: args.optional_bool(ONESIDED),
            return_complex: args.optional_bool(RETURN_COMPLEX),
            aligned: args.optional_bool(ALIGN_TO_WINDOW),
        })
    }

    fn refused(&self, signal: &Tensor, reason: impl Into<String>) -> Error {
        let Analysis { frame, window, normalized, onesided, return_complex, aligned, .. } = self;
        let sizes: Vec<String> = signal.sizes().iter().map(isize::to_string).collect();
        Error::runtime(format!(
            "stft({}[{}], n_fft={}, hop_length={}, win_length={}, window={}, normalized={}, onesided={}, return_complex={}, align_to_window={}) : {}",
            signal.dtype().class_name(signal.device()),
            sizes.join(", "),
            frame.n_fft,
            frame.hop,
            frame.width,
            shown(*window),
            u8::from(*normalized),
            number(*onesided),
            number(*return_complex),
            number(*aligned),
            reason.into(),
        ))
    }

    fn is_complex(&self) -> bool {
        self.input.dtype().is_complex() || self.window.is_some_and(|window| window.dtype().is_complex())
    }

    /// The signal with half a frame of padding at both ends, so that frames are centred.
    fn padded(&self, mode: &str) -> Result<Tensor> {
        let rank = self.input.rank();
        // Padding by reflection requires batch and channel dimensions.
        let missing = 3usize.saturating_sub(rank);
        let mut sizes = vec![1; missing];
        sizes.extend(self.input.sizes());
        let pad = self.frame.n_fft.div_euclid(2) as i64;
        let dtype = self.input.dtype();
        if mode == "reflect" && rank < 3 && !DTypes::NUMBERS.has(dtype) {
            return Err(Error::unsupported("reflection_pad1d", dtype));
        }
        let shaped = crate::view::RESHAPE.tensor([self.input.into(), sizes_value(&sizes)])?;
        let padded =
            crate::join::pad::PAD.tensor([(&shaped).into(), Ints::from_slice(&[pad, pad]).into(), mode.into()])?;
        // Of a number torch keeps the dimensions.
        let kept = if rank == 0 { 0 } else { missing };
        crate::view::RESHAPE.tensor([(&padded).into(), sizes_value(&padded.sizes()[kept..])])
    }

    /// Checks the arguments; returns whether half the frequencies are enough.
    fn check(&self, signal: &Tensor) -> Result<bool> {
        let Frame { n_fft, hop, width } = self.frame;
        let refused = |reason: String| Err(self.refused(signal, reason));
        if self.return_complex.is_none() && !self.is_complex() {
            return Err(Error::runtime(
                "stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True in a future PyTorch release.",
            ));
        }
        if self.return_complex == Some(false) {
            warn_once!(
                "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex tensors for all inputs, and return_complex=False will raise an error.\nNote: you can still call torch.view_as_real on the complex output to recover the old return format."
            )?;
        }
        if !self.input.dtype().is_differentiable() {
            return refused("expected a tensor of floating point or complex values".into());
        }
        if signal.rank() != 1 && signal.rank() != 2 {
            return refused("expected a 1D or 2D tensor".into());
        }
        let length = signal.sizes()[signal.rank() - 1];
        if n_fft <= 0 || n_fft > length {
            return refused(format!("expected 0 < n_fft < {length}, but got n_fft={width}"));
        }
        if hop <= 0 {
            return refused(format!("expected hop_length > 0, but got hop_length={hop}"));
        }
        if width <= 0 || width > n_fft {
            return refused(format!("expected 0 < win_length <= n_fft, but got win_length={width}"));
        }
        if let Some(window) = self.window
            && window.sizes().as_slice() != [width]
        {
            return refused(format!(
                "expected a 1D window tensor of size equal to win_length={width}, but got window with size {}",
                Shape(window.sizes())
            ));
        }
        let onesided = self.onesided.unwrap_or(!self.is_complex());
        if onesided && self.is_complex() {
            return Err(Error::runtime("Cannot have onesided output if window or input is complex"));
        }
        Ok(onesided)
    }
}

fn stft(args: &Args) -> Result<Tensor> {
    use STFT::*;

    let call = Analysis::of(args)?;
    if call.window.is_none() {
        warn_once!(
            "A window was not provided. A rectangular window will be applied,which is known to cause spectral leakage. Other windows such as torch.hann_window or torch.hamming_window are recommended to reduce spectral leakage.To suppress this warning and use a rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
        )?;
    }
    let center = args.bool(CENTER)?;
    if center && call.aligned.is_some() {
        return Err(Error::runtime("stft align_to_window should only be set when center = false"));
    }
    let signal = match center {
        true => call.padded(args.str(PAD_MODE)?)?,
        false => call.input.clone(),
    };
    let onesided = call.check(&signal)?;
    let signal = if call.aligned == Some(true) { call.frame.widened(&signal)? } else { signal };
    let frames = crate::view::unfold::UNFOLD.tensor([
        (&signal).into(),
        (-1i64).into(),
        Value::Int(call.frame.n_fft as i64),
        Value::Int(call.frame.hop as i64),
    ])?;
    let frames = match call.frame.window(args)? {
        Some(window) => (Expr::from(frames) * window).done()?,
        None => frames,
    };
    let scale = if call.normalized { FftNorm::Sqrt } else { FftNorm::Unscaled }.number();
    let last = || Ints::from_slice(&[-1]);
    let found = match frames.dtype().is_complex() {
        true => op!(C2C, &frames, last(), scale, true)?,
        false => op!(R2C, &frames, last(), scale, onesided)?,
    };
    let turned = Expr::from(found).transposed().done()?;
    if call.return_complex.unwrap_or(true) { Ok(turned) } else { op!(crate::view::complex::VIEW_AS_REAL, &turned) }
}

/// The arguments of `istft`.
struct Synthesis<'a> {
    input: &'a Tensor,
    frame: Frame,
    window: Option<&'a Tensor>,
    center: bool,
    normalized: bool,
    onesided: Option<bool>,
    length: Option<i64>,
    return_complex: bool,
}

impl<'a> Synthesis<'a> {
    fn of(args: &'a Args) -> Result<Self> {
        use ISTFT::*;

        Ok(Synthesis {
            input: args.tensor(INPUT)?,
            frame: Frame::of(args)?,
            window: args.optional_tensor(WINDOW),
            center: args.bool(CENTER)?,
            normalized: args.bool(NORMALIZED)?,
            onesided: args.optional_bool(ONESIDED),
            length: args.optional_int(LENGTH),
            return_complex: args.bool(RETURN_COMPLEX)?,
        })
    }

    fn refused(&self, reason: impl Into<String>) -> Error {
        let Synthesis { input, frame, window, center, normalized, onesided, length, return_complex } = self;
        let sizes: Vec<String> = input.sizes().iter().map(isize::to_string).collect();
        Error::runtime(format!(
            "istft(CPU{}Type[{}], n_fft={}, hop_length={}, win_length={}, window={}, center={}, normalized={}, onesided={}, length={}, return_complex={}) : {}",
            input.dtype().display_name(),
            sizes.join(", "),
            frame.n_fft,
            frame.hop,
            frame.width,
            shown(*window),
            u8::from(*center),
            u8::from(*normalized),
            number(*onesided),
            length.map_or("None".into(), |length| length.to_string()),
            u8::from(*return_complex),
            reason.into(),
        ))
    }

    fn check(&self) -> Result<()> {
        let (input, Frame { n_fft, hop, width }) = (self.input, self.frame);
        let refused = |reason: String| Err(self.refused(reason));
        if !input.dtype().is_complex() {
            return Err(Error::runtime(
                "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.",
            ));
        }
        // torch asks for the sizes of the numbers' parts, which are one dimension more.
        wrap_dim(-2, input.rank() + 1)?;
        wrap_dim(-3, input.rank() + 1)?;
        if input.numel() == 0 {
            return refused("input tensor cannot be empty.".into());
        }
        if input.rank() != 2 && input.rank() != 3 {
            return refused(format!("expected a tensor with 3 or 4 dimensions, but got {}", input.rank() + 1));
        }
        let [bins, _] = crate::linalg::dense::matrix_sizes(input);
        let onesided = self.onesided.unwrap_or(bins != n_fft);
        let (wanted, name, flag) =
            if onesided { (n_fft / 2 + 1, "n_fft / 2 + 1", "True") } else { (n_fft, "n_fft", "False") };
        if bins != wanted {
            return refused(format!(
                "expected the frequency dimension (3rd to the last) of the input tensor to match {name} when onesided={flag}, but got {bins}"
            ));
        }
        if hop <= 0 || hop > width {
            return refused("expected 0 < hop_length <= win_length".into());
        }
        if width <= 0 || width > n_fft {
            return refused("expected 0 < win_length <= n_fft".into());
        }
        if self.window.is_some_and(|window| window.sizes().as_slice() != [width]) {
            return refused("Invalid window shape. window has to be 1D and length of `win_length`".into());
        }
        let complex = self.window.is_some_and(|window| window.dtype().is_complex());
        if onesided && (self.return_complex || complex) {
            return Err(Error::runtime("Cannot have onesided output if window or input is complex"));
        }
        Ok(())
    }

    /// The signal of each frame.
    fn frames(&self) -> Result<Tensor> {
        let scale = if self.normalized { FftNorm::Sqrt } else { FftNorm::Full }.number();
        let last = Ints::from_slice(&[-1]);
        let columns = Expr::from(self.input).transposed();
        if self.return_complex {
            return op!(C2C, &columns.done()?, last, scale, false);
        }
        let half = columns.part(-1, 0, self.frame.n_fft / 2 + 1).done()?;
        op!(C2R, &half, last, scale, self.frame.n_fft as i64)
    }

    /// Overlapping frames, each `hop` after the previous one, added up.
    fn overlaid(&self, windows: &Tensor, batch: isize, frames: isize) -> Result<Tensor> {
        let Frame { n_fft, hop, .. } = self.frame;
        let whole = self.whole(frames);
        let sizes = Ints::from_slice(&[batch as i64, whole as i64]);
        let strides = Ints::from_slice(&[whole as i64, hop as i64, 1]);
        let shaped = crate::view::RESHAPE.tensor([windows.into(), sizes_value(&[batch, frames, n_fft])])?;
        op!(crate::view::strided::EMBED, &shaped, sizes, strides, 0i64)
    }

    /// The length of all overlapping frames.
    fn whole(&self, frames: isize) -> isize {
        self.frame.n_fft + self.frame.hop * (frames - 1)
    }
}

fn istft(args: &Args) -> Result<Tensor> {
    let call = Synthesis::of(args)?;
    if call.window.is_none() {
        warn_once!(
            "A window was not provided. A rectangular window will be applied.Please provide the same window used by stft to make the inversion lossless.To suppress this warning and use a rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
        )?;
    }
    call.check()?;
    let (input, n_fft) = (call.input, call.frame.n_fft);
    let [_, frames] = crate::linalg::dense::matrix_sizes(input);
    let batch = if input.rank() == 3 { input.sizes()[0] } else { 1 };
    let window = match call.frame.window(args)? {
        Some(window) => window,
        None => create::full(&[n_fft], Scalar::ONE, input.dtype().to_real(), input.device())?,
    };
    let windows = (Expr::from(call.frames()?) * &window).done()?;
    let squares = Expr::from(&window).square();
    let squares = squares.call(&crate::view::expand::EXPAND, [sizes_value(&[frames, n_fft])]).done()?;
    let (signal, envelope) = (call.overlaid(&windows, batch, frames)?, call.overlaid(&squares, 1, frames)?);
    let whole = call.whole(frames);
    let start = if call.center { n_fft / 2 } else { 0 };
    let end = match call.length {
        Some(length) => start + length as isize,
        None if call.center => whole - n_fft / 2,
        None => whole,
    };
    // A negative end counts from the end, as in a slice.
    let end = if end < 0 { end + whole } else { end };
    let kept = end.min(whole).max(start) - start;
    let (signal, envelope) =
        (Expr::from(signal).part(-1, start, kept), Expr::from(envelope).part(-1, start, kept).done()?);
    if envelope.numel() > 0 && envelope.device() != rushlight_core::Device::Meta {
        let smallest = Expr::from(vmap::samples(&handled::detach(&envelope)?)?)
            .abs()
            .call(&crate::reduce::extreme::MIN, [])
            .done()?;
        if crate::convert::item(&smallest)?.f64() < 1e-11 {
            return Err(call.refused("window overlap add min: 1"));
        }
    }
    let mut result = (signal / envelope).done()?;
    if end > whole {
        interpreter::warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please check your center and hop_length settings.",
        )?;
        let missing = Ints::from_slice(&[0, (end - whole) as i64]);
        result = crate::join::pad::CONSTANT_PAD.tensor([(&result).into(), missing.into()])?;
    }
    if input.rank() == 2 { op!(crate::view::squeeze::SQUEEZE_DIM, &result, 0i64) } else { Ok(result) }
}
