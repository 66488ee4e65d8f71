"""The example task of the quickstart: fields of customers' notes, in a required format."""
