"""The API under `/v1`: what happened and what is, for programs. Reading changes nothing.

reader.py    who reads, and what is left for them
asked.py     what a list is asked for: how much, from where, of whom
answers.py   how an answer is sent
shapes.py    what answers look like, for the description of the API
routes.py    all of it together; one file per noun beside it
"""
