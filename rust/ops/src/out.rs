//! What a row demands of `out=`: which dtypes it may have, and whether it may lie on an argument.
//!
//! torch refuses in many sentences. A row names its own once; `{Result}` and `{Out}` stand for the dtypes as torch calls
//! them (`Long`), `{result}` and `{out}` for C++'s names (`long int`), `{name}` for the operator.

use rushlight_core::dtype::can_cast;
use rushlight_core::{DType, Error, Result};

use crate::row::{DTypes, Row};
use crate::signature::Kind;
use crate::value::{Args, Value};

#[derive(Clone, Copy)]
pub enum Accepts {
    /// The result's dtype and those that it may be cast to: never down a category.
    Cast,
    /// The result's own alone.
    Same,
    /// As `Cast` for calls such as these, as `Same` for all others.
    CastIf(fn(&Args) -> bool),
    /// The result's own and these.
    Also(DTypes),
    /// All.
    Any,
    /// All: the result takes it, unless `dtype=` asks for another.
    Asked,
}

/// What is said where `out=` has elements, but not the result's sizes, and so becomes another.
#[derive(Clone, Copy)]
pub enum Resized {
    /// That this is deprecated.
    Deprecated,
    /// Nothing, as torch's factories.
    Silently,
    /// That the elements were counted, and are others in number.
    Counted,
}

#[derive(Clone, Copy)]
pub struct Out {
    pub accepts: Accepts,
    /// torch's sentence for each result; the last stands for all others.
    pub sentences: &'static [&'static str],
    /// Whether it may share no memory with an argument; otherwise it may lie exactly on one.
    pub apart: bool,
    /// Whether a result of one dimension fills an `out` of any shape with as many elements.
    pub filled: bool,
    /// Whether the kernel fills `out` itself, whatever its dtype and strides: random numbers are drawn in its order.
    pub direct: bool,
    pub resized: Resized,
}

macro_rules! out {
    ($accepts:ident $sentence:literal) => {
        Out::new(Accepts::$accepts, &[$sentence])
    };
}

impl Out {
    /// What most operators do.
    pub const CAST: Out = out!(Cast "result type {Result} can't be cast to the desired output type {Out}");
    pub const ANY: Out = out!(Any "");
    /// Functions of one tensor that compute in its dtype.
    pub const FOUND: Out = out!(Same "Found dtype {Out} but expected {Result}");
    pub const EXACT: Out = out!(Same "Expected out tensor to have dtype {result}, but got {out} instead");
    /// Exact, and apart from the arguments.
    pub const STRICT: Out = Out::EXACT.apart();
    pub const ASKED: Out = out!(Asked "Expected out tensor to have dtype {result}, but got {out} instead");
    /// Factories.
    pub const MADE: Out = out!(Asked "dtype {Result} does not match dtype of out parameter ({Out})").silently();

    pub const fn new(accepts: Accepts, sentences: &'static [&'static str]) -> Out {
        Out { accepts, sentences, apart: false, filled: false, direct: false, resized: Resized::Deprecated }
    }

    pub const fn filled(self) -> Out {
        Out { filled: true, ..self }
    }

    pub const fn direct(self) -> Out {
        Out { direct: true, ..self }
    }

    pub const fn counted(self) -> Out {
        Out { resized: Resized::Counted, ..self }
    }

    pub const fn silently(self) -> Out {
        Out { resized: Resized::Silently, ..self }
    }

    pub const fn apart(self) -> Out {
        Out { apart: true, ..self }
    }

    /// Refuses a dtype for the result at `place`.
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
            Accepts::Cast => can_cast(result, out),
            Accepts::Same | Accepts::CastIf(_) | Accepts::Asked => false,
            Accepts::Also(dtypes) => dtypes.has(out),
            Accepts::Any => true,
        };
        if fits { Ok(()) } else { Err(rule.refused(args.row, place, result, out)) }
    }

    #[cold]
    fn refused(&self, row: &Row, place: usize, result: DType, out: DType) -> Error {
        let sentence = self.sentences.get(place).or(self.sentences.last()).copied().unwrap_or_default();
        let words = [
            ("{Result}", result.title()),
            ("{Out}", out.title()),
            ("{result}", result.c_name()),
            ("{out}", out.c_name()),
            ("{name}", row.python_name()),
        ];
        let sentence = words.iter().fold(sentence.to_string(), |text, (word, name)| text.replace(word, name));
        Error::runtime(sentence).hint(format!("The result is {result}: give out= a tensor of that dtype."))
    }

    /// The arguments of a call whose result takes the dtype of `out`; other calls keep theirs.
    pub fn towards<'a>(&self, args: &Args<'a>, out: DType) -> Result<Args<'a>> {
        let mut args = args.clone();
        let is_dtype = |param: &crate::signature::Param| param.kind == Kind::DType;
        if matches!(self.accepts, Accepts::Asked)
            && let Some(place) = args.row.schema().params.iter().position(is_dtype)
        {
            match args.dtype(place) {
                Some(asked) => self.check(&args, 0, asked, out)?,
                None => args.values[place] = Value::DType(out),
            }
        }
        Ok(args)
    }
}
