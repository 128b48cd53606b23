//! Reads the values of a field by document.

use crate::Result;
use crate::search::codec::column::Column;
use crate::search::codec::dictionary::Dictionary;
use crate::search::model::types::Type;
use crate::search::model::value::{Value, decode_fixed};
use crate::search::partition::Partition;

/// A field of a partition with its column and dictionary opened, for repeated reads.
pub(crate) struct FieldView<'p> {
    part: &'p Partition,
    column: Option<Column<'p>>,
    dictionary: Dictionary<'p>,
    ty: Type,
    distinct: u32,
}

impl<'p> FieldView<'p> {
    pub(crate) fn new(part: &'p Partition, field: usize) -> Result<FieldView<'p>> {
        Ok(FieldView {
            part,
            column: part.column(field)?,
            dictionary: part.dictionary(field)?,
            ty: part.schema.fields[field].ty,
            distinct: part.meta(field).distinct,
        })
    }

    /// The ordinal of a document's smallest value; `None` if it has none.
    #[inline(always)]
    pub(crate) fn ordinal(&self, doc: u32) -> Result<Option<u32>> {
        self.part.check(doc)?;
        let Some(column) = &self.column else { return Ok(None) };
        let mut first = None;
        match column {
            Column::Single(ords) => {
                let ord = ords.get(doc as usize);
                first = (ord < self.distinct).then_some(ord);
            }
            _ => column.each(doc, self.distinct, |ord| first = first.or(Some(ord))),
        }
        Ok(first)
    }

    /// The 64-bit key of a document's smallest value; `None` if it has none. For fields other than
    /// string and bytes.
    #[inline(always)]
    pub(crate) fn fixed_key(&self, doc: u32) -> Result<Option<u64>> {
        Ok(self.ordinal(doc)?.map(|ord| self.dictionary.fixed_key(ord)))
    }

    /// The smallest value of a document; `None` if it has none.
    #[inline]
    pub(crate) fn value(&self, doc: u32) -> Result<Option<Value>> {
        self.ordinal(doc)?.map(|ord| self.value_of(ord)).transpose()
    }

    /// Adds all values of a document, ascending.
    pub(crate) fn values(&self, doc: u32, values: &mut Vec<Value>) -> Result<()> {
        self.part.check(doc)?;
        let Some(column) = &self.column else { return Ok(()) };
        let mut all = Ok(());
        column.each(doc, self.distinct, |ord| match self.value_of(ord) {
            Ok(value) => values.push(value),
            Err(e) => all = Err(e),
        });
        all
    }

    /// The value with an ordinal.
    #[inline]
    pub(crate) fn value_of(&self, ord: u32) -> Result<Value> {
        if let Dictionary::Fixed(keys) = &self.dictionary {
            return Ok(decode_fixed(self.ty, keys.get(ord as usize)));
        }
        self.part.at_file(self.dictionary.value(self.ty, ord))
    }
}
