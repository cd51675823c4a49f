//! Converts values of rows and parameters.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, WrongType, to_sql_checked};

use crate::row::{Row, Value};

pub(crate) fn to_row(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    // `collect` into a `Result` would not preallocate.
    let mut values = Vec::with_capacity(row.len());
    for column in 0..row.len() {
        values.push(row.try_get(column)?);
    }
    Ok(Row(values))
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self, ty) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Bool(boolean), _) => boolean.to_sql_checked(ty, out),
            (Value::Int(number), &Type::INT2) => i16::try_from(*number)?.to_sql(ty, out),
            (Value::Int(number), &Type::INT4) => i32::try_from(*number)?.to_sql(ty, out),
            (Value::Int(number), _) => number.to_sql_checked(ty, out),
            (Value::Text(text), _) => text.to_sql_checked(ty, out),
            (Value::Bytes(bytes), _) => bytes.to_sql_checked(ty, out),
            (Value::Uuid(id), _) => id.to_sql_checked(ty, out),
            (Value::Uuids(ids), _) => ids.to_sql_checked(ty, out),
        }
    }

    /// Accepts all types, because `to_sql` checks the type for each variant.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::BOOL => Value::Bool(bool::from_sql(ty, raw)?),
            Type::INT2 => Value::Int(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Value::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Value::Int(i64::from_sql(ty, raw)?),
            Type::TEXT | Type::VARCHAR => Value::Text(String::from_sql(ty, raw)?),
            Type::BYTEA => Value::Bytes(Vec::from_sql(ty, raw)?),
            Type::UUID => Value::Uuid(uuid::Uuid::from_sql(ty, raw)?),
            // `select pg_notify(...)` returns this type.
            Type::VOID => Value::Null,
            _ => return Err(Box::new(WrongType::new::<Value>(ty.clone()))),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Value::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
