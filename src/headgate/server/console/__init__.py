"""The console: what is happening, why, and what to do, for people.

A page is an async function that reads a view (plain dataclasses) and renders a template. HTML and
SVG come from the server, so every page is complete without JavaScript and says when it was made;
`static/live.js` only fetches the page again when something changed, and puts in what is new.

routes      all pages, and the files they need
page        what every page has: its head, the theme, who is asking; how it is rendered
words       how times, sizes and counts are said
draw        charts and maps as SVG
flash       what is said once, after an action
wrong       what needs a person, the worst first

`templates/parts.html` has the pieces that pages are put together from.
"""
