//! The error type of the engine: torch's class and sentence first, then help.
//!
//! Programs match on torch's sentences, so the first line is torch's own. The lines after it show the operands' shapes
//! aligned to the right if they broadcast, a caret under the axis that failed, and the nearest fix.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::dims::Dims;

pub type Result<T> = std::result::Result<T, Error>;

/// The class of the Python exception that an error becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Runtime,
    Index,
    Type,
    Value,
    NotImplemented,
    Memory,
    Overflow,
    LinAlg,
    /// An error that the driver of a device reports.
    Accelerator,
    /// A device has no memory left.
    DeviceMemory,
    /// The host cannot reach the memory of a device.
    Unreachable,
    Assertion,
    ModuleNotFound,
    /// A process group has failed.
    DistBackend,
}

/// A Python exception.
pub type Foreign = Arc<dyn Any + Send + Sync>;

/// An error with the details that its message shows. Built in steps: `Error::runtime(..).shapes(..).axis(..).hint(..)`.
#[derive(Clone)]
pub struct Error(Box<ErrorData>);

#[derive(Clone)]
struct ErrorData {
    class: Class,
    sentence: String,
    operator: Option<&'static str>,
    shapes: Vec<Dims>,
    axis: Option<usize>,
    /// Whether the last dimensions of the shapes stand below each other.
    from_right: bool,
    hint: Option<String>,
    /// Whether the hint refers to the shapes that are shown.
    fitted: bool,
    /// A Python exception that passes through the engine unchanged.
    foreign: Option<Foreign>,
}

impl Error {
    pub fn new(class: Class, sentence: impl Into<String>) -> Self {
        Error(Box::new(ErrorData {
            class,
            sentence: sentence.into(),
            operator: None,
            shapes: Vec::new(),
            axis: None,
            from_right: false,
            hint: None,
            fitted: false,
            foreign: None,
        }))
    }

    pub fn runtime(sentence: impl Into<String>) -> Self {
        Error::new(Class::Runtime, sentence)
    }

    pub fn index(sentence: impl Into<String>) -> Self {
        Error::new(Class::Index, sentence)
    }

    pub fn type_(sentence: impl Into<String>) -> Self {
        Error::new(Class::Type, sentence)
    }

    pub fn value(sentence: impl Into<String>) -> Self {
        Error::new(Class::Value, sentence)
    }

    pub fn not_implemented(sentence: impl Into<String>) -> Self {
        Error::new(Class::NotImplemented, sentence)
    }

    /// Wraps a Python exception, which is raised again unchanged.
    pub fn foreign(exception: Foreign) -> Self {
        let mut error = Error::runtime("an exception passed through the engine");
        error.0.foreign = Some(exception);
        error
    }

    /// The operands' shapes, in the order in which they were given.
    pub fn shapes<'a>(mut self, shapes: impl IntoIterator<Item = &'a [isize]>) -> Self {
        self.0.shapes = shapes.into_iter().map(Dims::from_slice).collect();
        self
    }

    /// Aligns the shapes to the right, as broadcasting does.
    pub fn from_right(mut self) -> Self {
        self.0.from_right = true;
        self
    }

    /// The axis that failed, counted from the left of the longest shape.
    pub fn axis(mut self, axis: usize) -> Self {
        self.0.axis = Some(axis);
        self
    }

    /// Whether the message shows shapes of operands.
    pub fn shows_shapes(&self) -> bool {
        !self.0.shapes.is_empty()
    }

    /// Removes the axis; used when its shapes are no longer shown.
    pub fn no_axis(mut self) -> Self {
        self.0.axis = None;
        self
    }

    /// The nearest fix, as a sentence of its own.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self.0.fitted = false;
        self
    }

    /// The nearest fix for operands of the shapes that are shown.
    pub fn fit(self, way: impl Into<String>) -> Self {
        let mut error = self.hint(way);
        error.0.fitted = true;
        error
    }

    /// One more line, after the hint.
    pub fn note(mut self, line: impl fmt::Display) -> Self {
        self.0.hint = Some(match self.0.hint {
            Some(hint) => format!("{hint}\n  {line}"),
            None => line.to_string(),
        });
        self
    }

    /// Names the operator, unless an inner operator that users can call has already been named.
    pub fn operator(mut self, name: &'static str) -> Self {
        if self.0.operator.is_none_or(private) {
            self.0.operator = Some(name);
        }
        self
    }

    /// Names the operator that was called and shows its operands' shapes. If an inner operator has shown shapes and
    /// they are among these operands', its axis and hint are kept, because they are more specific. The shapes of an operator that
    /// broadcasts are aligned to the right.
    pub fn called(mut self, name: &'static str, shapes: Vec<Dims>, broadcasts: bool) -> Self {
        let data = &mut *self.0;
        let some = shapes.iter().any(|shape| !shape.is_empty());
        let foreign = data.operator.is_some() && !data.shapes.iter().all(|shape| shapes.contains(shape));
        if some && foreign {
            data.axis = None;
            data.hint = data.hint.take().filter(|_| !data.fitted);
        }
        if some && (foreign || data.shapes.is_empty()) {
            data.shapes = shapes;
            data.from_right = broadcasts;
        }
        if data.operator.is_none_or(|inner| private(inner) || !private(name)) {
            data.operator = Some(name);
        }
        self
    }

    /// The same error in other words if it is of this class. Other errors, such as a failed allocation, are unchanged.
    pub fn reworded(self, class: Class, words: impl FnOnce() -> Error) -> Error {
        if self.class() == class { words() } else { self }
    }

    pub fn class(&self) -> Class {
        self.0.class
    }

    /// Whether other operands could prevent it: it is neither a Python exception nor a failure of memory or a device.
    pub fn concerns_operands(&self) -> bool {
        let elsewhere =
            [Class::Memory, Class::Accelerator, Class::DeviceMemory, Class::Unreachable, Class::DistBackend];
        self.0.foreign.is_none() && !elsewhere.contains(&self.0.class)
    }

    /// The same error with another first line.
    pub fn with_sentence(mut self, sentence: impl Into<String>) -> Self {
        self.0.sentence = sentence.into();
        self
    }

    /// torch's sentence: the first line.
    pub fn sentence(&self) -> &str {
        &self.0.sentence
    }

    pub fn take_foreign(&mut self) -> Option<Foreign> {
        self.0.foreign.take()
    }
}

/// Whether the name is private, so that users cannot call the operator.
fn private(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(|own| own.starts_with('_'))
}

fn sizes(shape: &[isize]) -> Vec<String> {
    shape.iter().map(isize::to_string).collect()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = &*self.0;
        f.write_str(&data.sentence)?;
        if let Some(operator) = data.operator {
            write!(f, "\n  in {}", operator.trim_start_matches('_'))?;
            match data.shapes.len() {
                0 => {}
                1 => f.write_str(" with the shape")?,
                _ if data.from_right => f.write_str(" with shapes, aligned to the right:")?,
                _ => f.write_str(" with shapes:")?,
            }
        }
        let rank = data.shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
        let table: Vec<Vec<String>> = data.shapes.iter().map(|shape| sizes(shape)).collect();
        let missing = |row: &[String]| if data.from_right { rank - row.len() } else { 0 };
        let cell = |row: &[String], column: usize| -> String {
            column.checked_sub(missing(row)).and_then(|place| row.get(place)).cloned().unwrap_or_default()
        };
        let widths: Vec<usize> =
            (0..rank).map(|column| table.iter().map(|row| cell(row, column).len()).max().unwrap_or(0)).collect();
        for row in &table {
            f.write_str("\n    (")?;
            let (first, end) = (missing(row), missing(row) + row.len());
            for (column, width) in widths.iter().enumerate().take(end) {
                write!(f, "{:>width$}", cell(row, column), width = *width)?;
                if column + 1 < end {
                    f.write_str(if column < first { "  " } else { ", " })?;
                }
            }
            f.write_str(")")?;
        }
        if let (Some(axis), false) = (data.axis, table.is_empty()) {
            let before: usize = widths.iter().take(axis).map(|width| width + 2).sum();
            let width = widths.get(axis).copied().unwrap_or(1);
            write!(f, "\n     {}{} axis {axis}", " ".repeat(before), "^".repeat(width.max(1)))?;
        }
        if let Some(hint) = &data.hint {
            write!(f, "\n  {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.class)
    }
}

impl std::error::Error for Error {}
