//! The requirements of an operator on `out=`: its dtypes, and whether it may share memory with an argument.
//!
//! torch has many different messages. An operator states its own once; `{Result}` and `{Out}` are replaced by torch's
//! names of the dtypes (`Long`), `{result}` and `{out}` by C++'s names (`long int`), `{Type}` by the old name of the type of
//! `out` (`torch.LongTensor`), `{Int}` by whether the result is int32, `{Own}` by the name of the first tensor's dtype, `{name}` by the
//! operator.

use rushlight_autograd::Tensor;
use rushlight_autograd::sparse::layout_in_errors;
use rushlight_core::dtype::can_cast;
use rushlight_core::layout::numel_overflow;
use rushlight_core::{Class, DType, Device, Error, Result};

use crate::create;
use crate::operator::{Accepts, Args, Out, Resized};
use crate::subgraph;
use crate::value::Value;

macro_rules! out {
    ($accepts:ident $sentence:literal) => {
        Out::new(Accepts::$accepts, &[$sentence])
    };
}

impl Out {
    /// The default of most operators.
    pub const CAST: Out = out!(Cast "result type {Result} can't be cast to the desired output type {Out}");
    pub const ANY: Out = out!(Any "");
    /// Functions of one tensor that compute in its dtype.
    pub const COMPUTE_DTYPE: Out = out!(Same "Found dtype {Out} but expected {Result}");
    pub const EXACT: Out = out!(Same "Expected out tensor to have dtype {result}, but got {out} instead");
    /// Exact, and without shared memory.
    pub const STRICT: Out = Out::EXACT.no_alias();
    pub const REQUESTED_DTYPE: Out =
        out!(Requested "Expected out tensor to have dtype {result}, but got {out} instead");
    /// Factories.
    pub const FACTORY: Out = out!(Requested "dtype {Result} does not match dtype of out parameter ({Out})").silently();

    pub const fn new(accepts: Accepts, sentences: &'static [&'static str]) -> Out {
        Out {
            accepts,
            sentences,
            class: Class::Runtime,
            no_alias: false,
            filled: false,
            direct: false,
            spanning: false,
            only_resizes: false,
            resizes_first: false,
            resized: Resized::Deprecated,
            known: None,
        }
    }

    /// A TypeError for other dtypes.
    pub const fn type_error(self) -> Out {
        Out { class: Class::Type, ..self }
    }

    pub const fn filled(self) -> Out {
        Out { filled: true, ..self }
    }

    pub const fn direct(self) -> Out {
        Out { direct: true, ..self }
    }

    pub const fn spanning(self) -> Out {
        Out { spanning: true, ..self }
    }

    pub const fn only_resizes(self) -> Out {
        Out { only_resizes: true, ..self }
    }

    pub const fn resizes_first(self) -> Out {
        Out { resizes_first: true, ..self }
    }

    pub const fn counted(self) -> Out {
        Out { resized: Resized::Counted, ..self }
    }

    pub const fn silently(self) -> Out {
        Out { resized: Resized::Silently, ..self }
    }

    pub const fn row_if(self, such: fn(&Args) -> bool) -> Out {
        Out { resized: Resized::RowIf(such), ..self }
    }

    pub const fn no_alias(self) -> Out {
        Out { no_alias: true, ..self }
    }

    /// With the result's dtype, which is compared with the target's before anything is computed.
    pub const fn known(self, dtype: fn(&Args) -> Option<DType>) -> Out {
        Out { known: Some(dtype), ..self }
    }

    /// With the result in the dtype of the first tensor. The operator refuses a tensor of another kind itself, first.
    pub const fn known_as_first(self) -> Out {
        self.known(|args| {
            args.each_tensor().map(|(_, first)| first.dtype()).next().filter(|dtype| dtype.is_differentiable())
        })
    }

    /// As `known_as_first`, for results that are real where the first tensor is complex.
    pub const fn known_as_real_first(self) -> Out {
        self.known(|args| {
            let dtype = args.each_tensor().next()?.1.dtype();
            dtype.is_differentiable().then(|| dtype.to_real())
        })
    }

    /// Returns an error for a target that cannot hold the result, as far as that is known beforehand.
    pub fn check_known(&self, args: &Args, target: DType) -> Result<()> {
        match self.known.and_then(|known| known(args)) {
            Some(result) => self.check(args, 0, result, target),
            None => Ok(()),
        }
    }

    /// Returns an error for a negative size, to which a target would be resized.
    pub fn check_sizes(&self, args: &Args) -> Result<()> {
        let schema = args.op.schema();
        let (Some(_), Some(size)) = (schema.options, schema.arg("size")) else { return Ok(()) };
        let sizes: Vec<isize> = args.ints(size)?.iter().map(|&size| size as isize).collect();
        if sizes.iter().any(|size| *size < 0) && !sizes.contains(&0) {
            return Err(numel_overflow(&sizes));
        }
        Ok(())
    }

    /// Returns an error for a dtype of the result at `place`.
    #[inline]
    pub fn check(&self, args: &Args, place: usize, result: DType, out: DType) -> Result<()> {
        if result == out {
            return Ok(());
        }
        let rule = match self.accepts {
            Accepts::CastIf(such) if such(args) => &Out::CAST,
            _ => self,
        };
        let fits = match rule.accepts {
            Accepts::Cast | Accepts::ExactIf(_) => can_cast(result, out),
            Accepts::Same | Accepts::CastIf(_) | Accepts::Requested | Accepts::RequestedIf(_) => false,
            Accepts::Also(dtypes) => dtypes.has(out),
            Accepts::Any => true,
        };
        match rule.accepts {
            _ if !fits => Err(rule.dtype_error(args, place, result, out)),
            Accepts::ExactIf(such) if such(args) => Err(Out::EXACT.dtype_error(args, place, result, out)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn dtype_error(&self, args: &Args, place: usize, result: DType, out: DType) -> Error {
        let sentence = self.sentences.get(place).or(self.sentences.last()).copied().unwrap_or_default();
        let own = args.each_tensor().next().map_or("", |(_, own)| own.dtype().display_name());
        let words = [
            ("{Own}", own),
            ("{Type}", &*out.class_name(Device::Cpu)),
            ("{Int}", if result == DType::I32 { "True" } else { "False" }),
            ("{Result}", result.display_name()),
            ("{Out}", out.display_name()),
            ("{result}", result.c_name()),
            ("{out}", out.c_name()),
            ("{name}", args.op.python_name()),
        ];
        let sentence = words.iter().fold(sentence.to_string(), |text, (word, name)| text.replace(word, name));
        Error::new(self.class, sentence).hint(format!("The result is {result}: use a tensor of that dtype for out=."))
    }

    /// The arguments of a call whose result takes the dtype of `out`; those of other calls are unchanged. The keywords
    /// of a factory must agree with `out`.
    pub fn towards<'a>(&self, args: &Args<'a>, out: &Tensor) -> Result<Args<'a>> {
        let mut args = args.clone();
        if matches!(self.accepts, Accepts::Requested | Accepts::RequestedIf(_))
            && let Some(dtype) = args.op.schema().arg("dtype")
        {
            match (args.dtype(dtype), self.accepts) {
                (Some(asked), _) => self.check(&args, 0, asked, out.dtype())?,
                (None, accepts) => {
                    if let Accepts::RequestedIf(check) = accepts {
                        check(&args, out.dtype())?;
                    }
                    args.set(dtype, Value::DType(out.dtype()));
                }
            }
        }
        check_options(&mut args, out)?;
        Ok(args)
    }
}

/// Returns an error for keywords of a factory that contradict `out=`, and drops that of page-locked memory. A result for a
/// sparse tensor has its layout.
fn check_options(args: &mut Args, out: &Tensor) -> Result<()> {
    let schema = args.op.schema();
    let Some([_, layout, device, pinned, _]) = schema.options else { return Ok(()) };
    if let Some(asked) = args.optional_str(layout).filter(|asked| *asked != out.python_layout()) {
        return Err(Error::runtime(format!(
            "layout {} does not match layout of out parameter ({})",
            layout_in_errors(asked),
            out.layout_name()
        )));
    }
    if let Some(asked) = args.device(device).filter(|asked| asked.kind() != out.device().kind()) {
        return Err(Error::runtime(format!(
            "device type {} does not match device type of out parameter ({})",
            asked.kind(),
            out.device().kind()
        )));
    }
    if schema.arg("memory_format").is_some_and(|format| args.optional_str(format).is_some()) {
        return Err(Error::runtime("'memory_format' argument is incompatible with 'out' tensor argument"));
    }
    if out.is_sparse() {
        args.set(layout, Value::Str(out.python_layout()));
    }
    args.set(pinned, Value::None);
    Ok(())
}

/// Makes the call of a factory the last one in the history of its `out=`. A leaf requires a gradient exactly if the call
/// asks for that.
pub fn settle_history(args: &Args, out: &Tensor) -> Result<()> {
    let Some([.., gradient]) = args.op.schema().options else { return Ok(()) };
    let wanted = args.optional_bool(gradient).unwrap_or(false);
    match out.is_leaf() {
        true if out.requires_grad() && !wanted => out.set_requires_grad(false),
        true => create::ask_gradient(out, wanted),
        false => subgraph::overwritten(out, format!("aten::{}", args.op.flat_name())),
    }
}
