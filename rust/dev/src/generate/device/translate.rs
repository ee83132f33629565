//! Translates expressions from Rust to C++, using only the syntax. Names stay names: the prelude defines them.
//!
//! The documentation of `rushlight_cuda::kernels` has a table of the translations.

use std::fmt::Write;

use syn::{BinOp, Expr, ExprIf, Lit, Pat, Stmt, Type, UnOp};

/// The meaning of the generic types in one function, such as `T` = `f32`.
pub type Types<'a> = &'a [(&'static str, &'a str)];

/// The body of a function that returns `value`.
pub fn body(value: &str, types: Types) -> Result<String, String> {
    let mut translator = Translator { types, names: Vec::new(), fresh: 0 };
    let mut text = String::new();
    let parsed: Expr = syn::parse_str(value).map_err(|error| format!("{error} in `{value}`"))?;
    translator.last(&parsed, &mut text, 1).map_err(|error| format!("{error}: `{value}`"))?;
    // A short body is on the line of the head.
    let short = text.matches('\n').count() == 1;
    Ok(if short { format!("{{ {} }}", text.trim()) } else { format!("{{\n{text}}}") })
}

struct Translator<'a> {
    types: Types<'a>,
    /// The names of `let` and their names in C++, since Rust allows to bind a name twice.
    names: Vec<(String, String)>,
    fresh: usize,
}

/// A piece of C++, and the precedence of its operator.
struct Piece {
    text: String,
    strength: u8,
}

const CLOSED: u8 = 9;
const LAZY_NEG: u8 = 8;
const PRODUCT: u8 = 7;
const SUM: u8 = 6;
const COMPARISON: u8 = 5;
const LOGIC: u8 = 4;
const CHOICE: u8 = 1;

impl Piece {
    fn closed(text: impl Into<String>) -> Piece {
        Piece { text: text.into(), strength: CLOSED }
    }

    /// The text, in parentheses if its precedence is lower than required.
    fn at_least(self, strength: u8) -> String {
        if self.strength >= strength { self.text } else { format!("({})", self.text) }
    }
}

impl Translator<'_> {
    /// The statements that return a value.
    fn last(&mut self, value: &Expr, text: &mut String, depth: usize) -> Result<(), String> {
        match value {
            Expr::Block(block) => self.block(&block.block.stmts, text, depth),
            Expr::If(choice) if has_let(choice) => {
                let (condition, otherwise) = (self.expr(&choice.cond)?.text, otherwise(choice)?);
                let indent = "    ".repeat(depth);
                let _ = writeln!(text, "{indent}if ({condition}) {{");
                self.block(&choice.then_branch.stmts, text, depth + 1)?;
                let _ = writeln!(text, "{indent}}}");
                self.last(otherwise, text, depth)
            }
            _ => {
                let value = self.expr(value)?.text;
                let _ = writeln!(text, "{}return {value};", "    ".repeat(depth));
                Ok(())
            }
        }
    }

    fn block(&mut self, statements: &[Stmt], text: &mut String, depth: usize) -> Result<(), String> {
        let outside = self.names.len();
        let Some((last, before)) = statements.split_last() else { return Err("an empty block".into()) };
        for statement in before {
            let (name, annotation, value) = binding(statement)?;
            let value = self.expr(value)?.text;
            let annotation = annotation.map_or(Ok("auto".into()), |annotation| self.type_name(annotation))?;
            self.fresh += 1;
            let new = format!("{name}_{}", self.fresh);
            let _ = writeln!(text, "{}const {annotation} {new} = {value};", "    ".repeat(depth));
            self.names.push((name, new));
        }
        let Stmt::Expr(value, None) = last else { return Err("a block without a value".into()) };
        self.last(value, text, depth)?;
        self.names.truncate(outside);
        Ok(())
    }

    fn expr(&mut self, value: &Expr) -> Result<Piece, String> {
        Ok(match value {
            Expr::Paren(inner) => self.expr(&inner.expr)?,
            Expr::Group(inner) => self.expr(&inner.expr)?,
            Expr::Lit(literal) => Piece::closed(match &literal.lit {
                Lit::Float(number) if number.suffix().is_empty() => format!("lit({})", number.base10_digits()),
                Lit::Int(number) if number.suffix().is_empty() => number.base10_digits().to_owned(),
                Lit::Bool(truth) => truth.value.to_string(),
                _ => return Err(unknown("this literal")),
            }),
            Expr::Path(path) => Piece::closed(self.constant(&path.path)?),
            Expr::Unary(unary) => match unary.op {
                UnOp::Neg(_) => {
                    Piece { text: format!("-{}", self.expr(&unary.expr)?.at_least(CLOSED)), strength: LAZY_NEG }
                }
                UnOp::Not(_) => Piece::closed(format!("complement({})", self.expr(&unary.expr)?.text)),
                _ => return Err(unknown("this operator")),
            },
            Expr::Binary(binary) => {
                let (left, right) = (self.expr(&binary.left)?, self.expr(&binary.right)?);
                match operator(&binary.op) {
                    // Chains of sums and products need no parentheses; those of comparisons and conditions are easily misread.
                    Some((sign, strength)) => {
                        let first = if strength >= SUM { strength } else { strength + 1 };
                        let text = format!("{} {sign} {}", left.at_least(first), right.at_least(strength + 1));
                        Piece { text, strength }
                    }
                    None if matches!(binary.op, BinOp::Rem(_)) => {
                        Piece::closed(format!("rem({}, {})", left.text, right.text))
                    }
                    None => return Err(unknown("this operator")),
                }
            }
            Expr::If(choice) => {
                let (Some(yes), no) = (only(&choice.then_branch.stmts), otherwise(choice)?) else {
                    return Err(unknown("`let` inside of a value"));
                };
                let (condition, yes, no) = (self.expr(&choice.cond)?, self.expr(yes)?, self.expr(no)?);
                let (condition, yes) = (condition.at_least(LOGIC), yes.at_least(LOGIC));
                Piece { text: format!("{condition} ? {yes} : {}", no.text), strength: CHOICE }
            }
            Expr::Block(block) => match only(&block.block.stmts) {
                Some(value) => self.expr(value)?,
                None => return Err(unknown("`let` inside of a value")),
            },
            Expr::Cast(cast) => {
                Piece::closed(format!("cast<{}>({})", self.type_name(&cast.ty)?, self.expr(&cast.expr)?.text))
            }
            Expr::Field(field) => match &field.member {
                syn::Member::Named(name) => {
                    Piece::closed(format!("{}.{name}", self.expr(&field.base)?.at_least(CLOSED)))
                }
                // The byte of a `Bool`.
                syn::Member::Unnamed(_) => Piece::closed(format!("get({})", self.expr(&field.base)?.text)),
            },
            Expr::MethodCall(call) => {
                let mut arguments = vec![self.expr(&call.receiver)?.text];
                for argument in &call.args {
                    arguments.push(self.expr(argument)?.text);
                }
                Piece::closed(format!("{}({})", call.method, arguments.join(", ")))
            }
            Expr::Call(call) => {
                let Expr::Path(function) = &*call.func else { return Err(unknown("this call")) };
                let mut arguments = Vec::new();
                for argument in &call.args {
                    arguments.push(self.expr(argument)?.text);
                }
                Piece::closed(format!("{}({})", self.function(&function.path)?, arguments.join(", ")))
            }
            _ => return Err(unknown("this kind of expression")),
        })
    }

    /// The C++ name of a type, if it is one that expressions may name.
    fn known_type(&self, name: &str) -> Option<String> {
        if let Some((_, meaning)) = self.types.iter().find(|(generic, _)| *generic == name) {
            return Some((*meaning).to_owned());
        }
        let name = name.trim_end_matches('_');
        const KNOWN: [&str; 16] = [
            "u8", "i8", "i16", "i32", "i64", "u16", "u32", "u64", "usize", "f16", "bf16", "f32", "f64", "c64", "c128",
            "Bool",
        ];
        KNOWN.contains(&name).then(|| name.to_owned())
    }

    fn type_name(&self, name: &Type) -> Result<String, String> {
        let Type::Path(path) = name else { return Err(unknown("this type")) };
        let last = path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        self.known_type(&last).ok_or_else(|| unknown("this type"))
    }

    fn segments(path: &syn::Path) -> Vec<String> {
        let all = path.segments.iter().map(|segment| segment.ident.to_string());
        all.filter(|segment| segment != "super" && segment != "crate").collect()
    }

    /// A name that is no function: one of `let`, a parameter, or a constant.
    fn constant(&self, path: &syn::Path) -> Result<String, String> {
        let segments = Self::segments(path);
        match segments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [name] => {
                let bound = self.names.iter().rev().find(|(old, _)| old == name);
                Ok(bound.map_or_else(|| name.to_owned(), |(_, new)| new.clone()))
            }
            [.., "consts", name] => Ok(name.to_owned()),
            [.., owner, name] => Ok(match self.known_type(owner) {
                Some(owner) => format!("{}<{owner}>()", name.to_lowercase()),
                None => format!("{owner}::{name}"),
            }),
            [] => Err(unknown("this name")),
        }
    }

    fn function(&self, path: &syn::Path) -> Result<String, String> {
        let segments = Self::segments(path);
        Ok(match segments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [name] => self.known_type(name).unwrap_or_else(|| name.to_owned()),
            [.., "S", name] => name.to_owned(),
            [.., owner, name] => match (self.known_type(owner), name) {
                (Some(owner), "new" | "default") => owner,
                (Some(owner), name) => format!("{name}<{owner}>"),
                (None, name) => format!("{owner}::{name}"),
            },
            [] => return Err(unknown("this name")),
        })
    }
}

/// An operator that both languages share, and its precedence.
fn operator(op: &BinOp) -> Option<(&'static str, u8)> {
    Some(match op {
        BinOp::Mul(_) => ("*", PRODUCT),
        BinOp::Div(_) => ("/", PRODUCT),
        BinOp::Add(_) => ("+", SUM),
        BinOp::Sub(_) => ("-", SUM),
        BinOp::Eq(_) => ("==", COMPARISON),
        BinOp::Ne(_) => ("!=", COMPARISON),
        BinOp::Lt(_) => ("<", COMPARISON),
        BinOp::Le(_) => ("<=", COMPARISON),
        BinOp::Gt(_) => (">", COMPARISON),
        BinOp::Ge(_) => (">=", COMPARISON),
        BinOp::BitAnd(_) => ("&", LOGIC),
        BinOp::BitXor(_) => ("^", LOGIC),
        BinOp::BitOr(_) => ("|", LOGIC),
        BinOp::And(_) => ("&&", LOGIC),
        BinOp::Or(_) => ("||", LOGIC),
        _ => return None,
    })
}

/// A `let` of one name: the name, its type where one is written, and the value.
fn binding(statement: &Stmt) -> Result<(String, Option<&Type>, &Expr), String> {
    let Stmt::Local(local) = statement else { return Err(unknown("a statement other than `let`")) };
    let Some(init) = &local.init else { return Err(unknown("`let` without a value")) };
    let (pattern, annotation) = match &local.pat {
        Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
        pattern => (pattern, None),
    };
    match pattern {
        Pat::Ident(name) => Ok((name.ident.to_string(), annotation, &init.expr)),
        _ => Err(unknown("a pattern")),
    }
}

/// The value of a block that has nothing else.
fn only(statements: &[Stmt]) -> Option<&Expr> {
    match statements {
        [Stmt::Expr(value, None)] => Some(value),
        _ => None,
    }
}

fn otherwise(choice: &ExprIf) -> Result<&Expr, String> {
    choice.else_branch.as_ref().map(|(_, value)| &**value).ok_or_else(|| unknown("`if` without `else`"))
}

/// Whether a branch has more than a value.
fn has_let(choice: &ExprIf) -> bool {
    let more = |statements: &[Stmt]| match only(statements) {
        Some(Expr::If(inner)) => has_let(inner),
        Some(_) => false,
        None => true,
    };
    more(&choice.then_branch.stmts)
        || match choice.else_branch.as_ref().map(|(_, value)| &**value) {
            Some(Expr::If(inner)) => has_let(inner),
            Some(Expr::Block(block)) => more(&block.block.stmts),
            _ => false,
        }
}

fn unknown(what: &str) -> String {
    format!("{what} is not translated")
}
