//! From text to statements: an own loop over the parser's tokens.
//!
//! `WATERMARK FOR`, `CREATE SINK` and the options of a view are not SQL that the parser knows, so the loop reads them by
//! hand and leaves to the parser what is standard: types, expressions and SELECT.

use super::options::{OptionEntry, OptionValue};
use super::text::SourceText;
use crate::error::{Error, Result};
use crate::types::DataType;
use sqlparser::ast::{self, Ident};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};

/// Operators in one text: chains of them nest as deep as they are long.
const OPERATORS_MAX: usize = 2_000;

/// A statement, not bound yet.
#[derive(Debug)]
pub(super) enum Statement {
    Table(Box<TableStatement>),
    View(ViewStatement),
    Sink(SinkStatement),
}

/// `CREATE TABLE`.
#[derive(Debug)]
pub(super) struct TableStatement {
    pub(super) name: Ident,
    pub(super) if_not_exists: bool,
    /// `None`: no list was given.
    pub(super) columns: Option<Vec<ColumnStatement>>,
    /// `WATERMARK FOR path AS expr`.
    pub(super) watermark: Option<(Vec<Ident>, ast::Expr)>,
    pub(super) options: Vec<OptionEntry>,
}

/// A column: its path and type.
#[derive(Debug)]
pub(super) struct ColumnStatement {
    pub(super) path: Vec<Ident>,
    pub(super) dtype: DataType,
}

/// `CREATE MATERIALIZED VIEW`, or a bare SELECT (no name).
#[derive(Debug)]
pub(super) struct ViewStatement {
    pub(super) name: Option<Ident>,
    pub(super) options: Vec<OptionEntry>,
    pub(super) query: Box<ast::Query>,
    /// The first word of the query.
    pub(super) select: Span,
    /// The query's text.
    pub(super) sql: String,
}

/// `CREATE SINK`.
#[derive(Debug)]
pub(super) struct SinkStatement {
    pub(super) name: Ident,
    pub(super) view: Ident,
    pub(super) options: Vec<OptionEntry>,
}

/// Reads all statements of a text.
///
/// # Errors
/// At the first thing that is not understood.
pub(super) fn parse(source: &SourceText<'_>, text: &str) -> Result<Vec<Statement>> {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location().map_err(|e| source.syntax(e.into(), &[]))?;
    if tokens.iter().filter(|t| is_operator(&t.token)).count() > OPERATORS_MAX {
        let error = Error::usage(format!("the query has more than {OPERATORS_MAX} operators")).at(source_name(source));
        return Err(error.with_hint("a long list of values is shorter as x IN (…)"));
    }
    let tokens = without_table_words(tokens);
    let parser = Parser::new(&dialect).with_tokens_with_locations(tokens.clone());
    let mut reader = Reader { source, parser, tokens };
    let mut out = Vec::new();
    loop {
        while reader.parser.consume_token(&Token::SemiColon) {}
        if reader.peek().token == Token::EOF {
            return Ok(out);
        }
        out.push(reader.statement()?);
        reader.end_of_statement()?;
    }
}

fn source_name(source: &SourceText<'_>) -> String {
    source.error(Span::empty(), "").place().unwrap_or_default().to_owned()
}

fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(w) => {
            matches!(w.keyword, Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::IS | Keyword::LIKE | Keyword::IN)
        }
        Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::StringConcat
        | Token::DoubleColon
        | Token::Eq
        | Token::Neq
        | Token::Lt
        | Token::Gt
        | Token::LtEq
        | Token::GtEq => true,
        _ => false,
    }
}

/// `TUMBLE(TABLE t, …)` is standard SQL that the parser does not read: drops the word.
fn without_table_words(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let is_table = matches!(&token.token, Token::Word(w) if w.keyword == Keyword::TABLE && w.quote_style.is_none());
        if is_table {
            let mut before = out.iter().rev().filter(|t| !matches!(t.token, Token::Whitespace(_)));
            let opened = matches!(before.next(), Some(t) if t.token == Token::LParen);
            let called =
                before.next().is_some_and(|t| ["tumble", "hop", "session"].iter().any(|w| is_word(&t.token, w)));
            if opened && called {
                continue;
            }
        }
        out.push(token);
    }
    out
}

/// Whether a token is this word, unquoted, in any case.
fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

struct Reader<'s, 'd> {
    source: &'s SourceText<'s>,
    parser: Parser<'d>,
    tokens: Vec<TokenWithSpan>,
}

impl Reader<'_, '_> {
    fn peek(&self) -> &TokenWithSpan {
        self.parser.peek_token_ref()
    }

    fn peek_is(&self, nth: usize, word: &str) -> bool {
        is_word(&self.parser.peek_nth_token_ref(nth).token, word)
    }

    /// Takes the word if it comes next.
    fn word(&mut self, word: &str) -> bool {
        let found = self.peek_is(0, word);
        if found {
            self.parser.advance_token();
        }
        found
    }

    fn error(&self, token: &TokenWithSpan, message: impl Into<String>) -> Error {
        let span = if token.token == Token::EOF { self.source.end() } else { token.span };
        self.source.error(span, message)
    }

    fn expected(&self, what: &str) -> Error {
        let token = self.peek();
        self.error(token, format!("expected {what}, found {}", shown(&token.token)))
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.word(word) { Ok(()) } else { Err(self.expected(&word.to_uppercase())) }
    }

    fn expect(&mut self, token: &Token) -> Result<()> {
        if self.parser.consume_token(token) { Ok(()) } else { Err(self.expected(&format!("\"{token}\""))) }
    }

    /// Runs a part of the parser.
    fn parse<T>(
        &mut self,
        part: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, sqlparser::parser::ParserError>,
    ) -> Result<T> {
        part(&mut self.parser).map_err(|e| self.source.syntax(e, &self.tokens))
    }

    /// An identifier, quoted or not; `what` says what it names.
    fn name(&mut self, what: &str) -> Result<Ident> {
        let token = self.peek().clone();
        let Token::Word(word) = &token.token else { return Err(self.expected(what)) };
        self.parser.advance_token();
        if self.peek().token == Token::Period && !what.contains("column") {
            return Err(self.error(&token, format!("{what} has no schema: a single name is expected")));
        }
        Ok(word.to_ident(token.span))
    }

    fn path(&mut self, what: &str) -> Result<Vec<Ident>> {
        let mut path = vec![self.name(what)?];
        while self.parser.consume_token(&Token::Period) {
            path.push(self.name(what)?);
        }
        Ok(path)
    }

    fn statement(&mut self) -> Result<Statement> {
        let first = self.peek().clone();
        if self.word("create") {
            return self.create();
        }
        let starts = ["select", "with", "values", "table", "from"].iter().any(|w| is_word(&first.token, w));
        if starts || first.token == Token::LParen {
            return Ok(Statement::View(self.query(None, Vec::new())?));
        }
        let error = self.expected("CREATE or SELECT");
        let hint = match &first.token {
            Token::Word(w)
                if matches!(w.keyword, Keyword::INSERT | Keyword::UPDATE | Keyword::DELETE | Keyword::COPY) =>
            {
                "records come from a table's connector, results go to a CREATE SINK … FROM view"
            }
            Token::Word(w) if w.keyword == Keyword::EXPLAIN => "use the command: slackwater explain FILE.sql",
            Token::Word(w) if matches!(w.keyword, Keyword::DROP | Keyword::ALTER) => {
                "a program states all it needs from the start, and nothing outlives its run"
            }
            Token::Word(w) if w.keyword == Keyword::SET => {
                "settings are options: WITH (name = value) on a table or view"
            }
            _ => "a program is CREATE TABLE, CREATE MATERIALIZED VIEW, CREATE SINK and SELECT statements",
        };
        Err(error.with_hint(hint))
    }

    fn end_of_statement(&mut self) -> Result<()> {
        let next = self.peek();
        if matches!(next.token, Token::SemiColon | Token::EOF) {
            return Ok(());
        }
        let error = self.expected("\";\" or the end of the text");
        Err(if is_word(&next.token, "with") {
            error.with_hint(
                "a view's options stand before AS: CREATE MATERIALIZED VIEW name WITH (horizon = '…') AS SELECT …",
            )
        } else if is_word(&next.token, "watermark") {
            error.with_hint("WATERMARK FOR stands within the parentheses of the columns")
        } else {
            error
        })
    }

    fn create(&mut self) -> Result<Statement> {
        let token = self.peek().clone();
        if self.word("table") {
            return Ok(Statement::Table(Box::new(self.table()?)));
        }
        if self.word("materialized") {
            self.expect_word("view")?;
            return Ok(Statement::View(self.view()?));
        }
        if self.word("sink") {
            return Ok(Statement::Sink(self.sink()?));
        }
        let error = self.expected("TABLE, MATERIALIZED VIEW or SINK");
        let hint = match &token.token {
            t if is_word(t, "view") => "write CREATE MATERIALIZED VIEW: every view is kept up to date and corrected",
            t if is_word(t, "or") => "nothing outlives a run, so there is nothing to replace",
            t if is_word(t, "source") || is_word(t, "stream") || is_word(t, "external") => {
                "write CREATE TABLE … WITH (connector = …)"
            }
            t if is_word(t, "temporary") || is_word(t, "temp") => "every table is temporary: leave the word out",
            _ => return Err(error),
        };
        Err(error.with_hint(hint))
    }

    fn if_not_exists(&mut self) -> bool {
        let found = self.peek_is(0, "if") && self.peek_is(1, "not") && self.peek_is(2, "exists");
        if found {
            (0..3).for_each(|_| self.parser.advance_token());
        }
        found
    }

    fn table(&mut self) -> Result<TableStatement> {
        let if_not_exists = self.if_not_exists();
        let name = self.name("the name of a table")?;
        let mut watermark = None;
        let mut columns = None;
        if self.parser.consume_token(&Token::LParen) {
            let list: &mut Vec<ColumnStatement> = columns.insert(Vec::new());
            loop {
                if self.peek().token == Token::RParen && list.is_empty() && watermark.is_none() {
                    return Err(self.expected("a column"));
                }
                if self.peek_is(0, "watermark") && self.peek_is(1, "for") {
                    let token = self.peek().clone();
                    if watermark.is_some() {
                        return Err(self.error(&token, "a table has one WATERMARK FOR"));
                    }
                    (0..2).for_each(|_| self.parser.advance_token());
                    let path = self.path("the event-time column")?;
                    self.expect_word("as")?;
                    watermark = Some((path, self.parse(|p| p.parse_expr())?));
                } else {
                    list.push(self.column()?);
                }
                if self.parser.consume_token(&Token::Comma) {
                    continue;
                }
                self.expect(&Token::RParen)?;
                break;
            }
        }
        let options = self.options()?;
        if self.peek_is(0, "as") {
            let error = self.expected("\";\" or the end of the text");
            return Err(error.with_hint("a query's result is a view: CREATE MATERIALIZED VIEW name AS SELECT …"));
        }
        Ok(TableStatement { name, if_not_exists, columns, watermark, options })
    }

    fn column(&mut self) -> Result<ColumnStatement> {
        let path = self.path("a column")?;
        if matches!(self.peek().token, Token::Comma | Token::RParen | Token::EOF) {
            return Err(self.expected("the type of the column"));
        }
        let start = self.peek().clone();
        let parsed = self.parse(|p| p.parse_data_type())?;
        let dtype = data_type(&parsed).map_err(|(message, hint)| self.error(&start, message).with_hint(hint))?;
        let next = self.peek();
        if !matches!(next.token, Token::Comma | Token::RParen) {
            let error = self.expected("\",\" or \")\"");
            return Err(match &next.token {
                t if is_word(t, "not") || is_word(t, "null") => {
                    error.with_hint("every column may be NULL; filter with WHERE … IS NOT NULL")
                }
                Token::Word(_) => error.with_hint("a column is a name and a type, nothing else"),
                _ => error,
            });
        }
        Ok(ColumnStatement { path, dtype })
    }

    fn view(&mut self) -> Result<ViewStatement> {
        self.if_not_exists();
        let name = self.name("the name of a view")?;
        if self.peek().token == Token::LParen {
            let error = self.expected("AS or WITH");
            return Err(error.with_hint("columns are named in the SELECT list: SELECT count(*) AS orders"));
        }
        let options = self.options()?;
        self.expect_word("as")?;
        self.query(Some(name), options)
    }

    fn query(&mut self, name: Option<Ident>, options: Vec<OptionEntry>) -> Result<ViewStatement> {
        let first = self.peek().clone();
        if first.token == Token::EOF {
            return Err(self.expected("SELECT"));
        }
        let query = self.parse(|p| p.parse_query())?;
        let mut last = self.parser.index().saturating_sub(1);
        while last > 0 && matches!(self.parser.token_at(last).token, Token::Whitespace(_)) {
            last -= 1;
        }
        let sql = self.source.slice(first.span.start, self.parser.token_at(last).span.end).to_owned();
        Ok(ViewStatement { name, options, query, select: first.span, sql })
    }

    fn sink(&mut self) -> Result<SinkStatement> {
        self.if_not_exists();
        let name = self.name("the name of a sink")?;
        if self.peek_is(0, "as") {
            let error = self.expected("FROM");
            return Err(error
                .with_hint("name the query first: CREATE MATERIALIZED VIEW v AS SELECT …, then CREATE SINK s FROM v"));
        }
        self.expect_word("from")?;
        let view = self.name("the name of a view")?;
        let options = self.options()?;
        Ok(SinkStatement { name, view, options })
    }

    /// `[WITH (name = value, …)]`; names may stand in quotes of either kind.
    fn options(&mut self) -> Result<Vec<OptionEntry>> {
        let mut out = Vec::new();
        if !self.word("with") {
            return Ok(out);
        }
        self.expect(&Token::LParen)?;
        if self.parser.consume_token(&Token::RParen) {
            return Ok(out);
        }
        loop {
            let token = self.peek().clone();
            let key = match token.token {
                Token::Word(word) => word.value.to_lowercase(),
                Token::SingleQuotedString(text) => text.to_lowercase(),
                _ => return Err(self.expected("the name of an option")),
            };
            self.parser.advance_token();
            self.expect(&Token::Eq)?;
            let start = self.peek().span;
            let value = self.option_value()?;
            let end = self.parser.get_current_token().span;
            out.push(OptionEntry { key, key_span: token.span, value, value_span: start.union(&end) });
            if !self.parser.consume_token(&Token::Comma) {
                self.expect(&Token::RParen)?;
                return Ok(out);
            }
        }
    }

    fn option_value(&mut self) -> Result<OptionValue> {
        let token = self.peek().clone();
        let minus = self.parser.consume_token(&Token::Minus);
        let next = self.peek().clone();
        let value = match next.token {
            Token::Number(digits, _) => OptionValue::Number(if minus { format!("-{digits}") } else { digits }),
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) if !minus => OptionValue::Text(text),
            Token::Word(word) if !minus && word.keyword == Keyword::TRUE => OptionValue::Boolean(true),
            Token::Word(word) if !minus && word.keyword == Keyword::FALSE => OptionValue::Boolean(false),
            Token::Word(word) if !minus && word.keyword == Keyword::INTERVAL => {
                let parsed = self.parse(|p| p.parse_expr())?;
                let ast::Expr::Interval(interval) = &parsed else {
                    return Err(self.error(&token, "expected INTERVAL '…'"));
                };
                let text = interval_text(interval)
                    .ok_or_else(|| self.error(&token, "expected INTERVAL '…' with a text of one or more parts"))?;
                return Ok(OptionValue::Interval(text));
            }
            Token::Word(word) if !minus => {
                let error = self.expected("a value");
                return Err(error.with_hint(format!("texts stand in single quotes: '{}'", word.value)));
            }
            _ => return Err(self.expected("a value")),
        };
        self.parser.advance_token();
        Ok(value)
    }
}

/// A token as shown in messages.
fn shown(token: &Token) -> String {
    match token {
        Token::EOF => "the end of the text".to_owned(),
        Token::SingleQuotedString(text) => format!("'{text}'"),
        other => format!("\"{other}\""),
    }
}

/// The text of a duration: `INTERVAL '5' MINUTE` is `5 MINUTE`. `None` for forms that are not supported.
pub(super) fn interval_text(interval: &ast::Interval) -> Option<String> {
    if interval.last_field.is_some()
        || interval.leading_precision.is_some()
        || interval.fractional_seconds_precision.is_some()
    {
        return None;
    }
    let (sign, value) = match &*interval.value {
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => ("-", &**expr),
        other => ("", other),
    };
    let ast::Expr::Value(value) = value else { return None };
    let text = match &value.value {
        ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => text.clone(),
        ast::Value::Number(digits, _) => digits.clone(),
        _ => return None,
    };
    Some(match &interval.leading_field {
        Some(field) => format!("{sign}{text} {}", field.to_string().to_lowercase()),
        None => format!("{sign}{text}"),
    })
}

/// The type that a SQL type name stands for. INTEGER, INT and SMALLINT are BIGINT; REAL and FLOAT are DOUBLE; DECIMAL
/// without digits is DECIMAL(38,9); TIMESTAMP of any precision holds microseconds, with or without time zone.
///
/// # Errors
/// A message and a hint for types that are not supported.
pub(super) fn data_type(parsed: &ast::DataType) -> std::result::Result<DataType, (String, String)> {
    use ast::DataType as Sql;
    match parsed {
        Sql::Boolean | Sql::Bool => Ok(DataType::Boolean),
        Sql::BigInt(None)
        | Sql::Int(None)
        | Sql::Integer(None)
        | Sql::SmallInt(None)
        | Sql::TinyInt(None)
        | Sql::Int2(None)
        | Sql::Int4(None)
        | Sql::Int8(None)
        | Sql::Int64 => Ok(DataType::BigInt),
        Sql::Double(_)
        | Sql::DoublePrecision
        | Sql::Float(_)
        | Sql::Real
        | Sql::Float4
        | Sql::Float8
        | Sql::Float64 => Ok(DataType::Double),
        Sql::Decimal(info) | Sql::Numeric(info) | Sql::Dec(info) => decimal(info),
        Sql::Text | Sql::Varchar(None) | Sql::String(None) | Sql::CharacterVarying(None) => Ok(DataType::Text),
        Sql::Timestamp(..) => Ok(DataType::Timestamp),
        Sql::Date => Ok(DataType::Date),
        Sql::Interval { fields: None, .. } => Ok(DataType::Interval),
        Sql::Varchar(Some(_))
        | Sql::String(Some(_))
        | Sql::CharacterVarying(Some(_))
        | Sql::Char(_)
        | Sql::Character(_) => {
            Err((format!("unsupported type {parsed}"), "lengths are not enforced: write TEXT".to_owned()))
        }
        Sql::Datetime(_) => Err((format!("unsupported type {parsed}"), "write TIMESTAMP".to_owned())),
        Sql::Uuid | Sql::JSON | Sql::JSONB => Err((
            format!("unsupported type {parsed}"),
            "write TEXT; nested JSON is reached by path: payload.amount BIGINT".to_owned(),
        )),
        other => {
            let name = other.to_string();
            let known = "the types are BOOLEAN, BIGINT, DOUBLE, DECIMAL(p,s), TEXT, TIMESTAMP, DATE and INTERVAL";
            const NAMES: [&str; 14] = [
                "BOOLEAN",
                "BIGINT",
                "INTEGER",
                "INT",
                "SMALLINT",
                "DOUBLE",
                "REAL",
                "FLOAT",
                "DECIMAL",
                "NUMERIC",
                "TEXT",
                "VARCHAR",
                "TIMESTAMP",
                "INTERVAL",
            ];
            let hint = super::text::did_you_mean(&name, NAMES).unwrap_or_else(|| known.to_owned());
            Err((format!("unknown type {name}"), hint))
        }
    }
}

fn decimal(info: &ast::ExactNumberInfo) -> std::result::Result<DataType, (String, String)> {
    let (precision, scale) = match *info {
        ast::ExactNumberInfo::None => (38, 9),
        ast::ExactNumberInfo::Precision(p) => (p, 0),
        ast::ExactNumberInfo::PrecisionAndScale(p, s) => (p, s),
    };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Ok(DataType::Decimal { precision, scale }),
        _ => Err((
            format!("DECIMAL({precision},{scale}) is out of range"),
            "DECIMAL(p,s) has 1 to 38 digits, of which at most p stand after the point".to_owned(),
        )),
    }
}
