//! SMS from operators by SMPP.
