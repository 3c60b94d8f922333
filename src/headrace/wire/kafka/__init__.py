"""Kafka's protocol: messages and their codec, frames, error codes, record batches.

| module | what it is for |
|---|---|
| `messages.*` | one module per API, generated; one class serves all versions |
| `codec` | `decode`, `encode` of any message in any version |
| `frames`, `api_keys` | request and response headers, which version is flexible |
| `hot` | Produce and Fetch without message objects |
| `record_batch`, `records`, `compression` | batches: header, records inside, codecs |
| `metadata_records`, `coordinator_records`, `control_records` | what internal logs hold |
| `errors` | the error codes |
"""
