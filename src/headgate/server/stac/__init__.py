"""`/stac`: what is published, as a STAC API. Read-only, from the ledger alone.

asked.py     what a search asks for, read from an address or a body
shape.py     whether a geometry is really there, not only its bounding box
hrefs.py     where things are in this API
pages.py     the documents: catalog, collections, items, and pages of them
reader.py    who asks, and the one snapshot that an answer is read in
answers.py   how a document is sent: media type, ETag, and nothing when it is known already
download.py  bytes of the store, whole or in part
routes.py    the addresses
browsers.py  HEAD, OPTIONS and pages of other origins
"""
