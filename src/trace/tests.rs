//! Tests of whole imports.
