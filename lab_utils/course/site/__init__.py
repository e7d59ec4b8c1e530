"""The site: the course as static pages in both languages, with every tool alive and no kernel.

`command` runs the steps. `lessons` and `tools` write what Sphinx reads, one folder for each
language; Sphinx (its settings lie in `generator`) makes the pages, Pagefind their search; `finish`
puts the last words into Chinese and the door in front. What runs here needs no torch.
"""
