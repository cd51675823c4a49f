//! SMS from operators and aggregators by webhook.
