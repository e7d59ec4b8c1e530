"""What only the page of the pipeline tool has: boundaries between stages that one pulls."""

from __future__ import annotations

from tool_pages import label

GRIP = "[data-drag=cut3]"


def test_a_boundary_follows_the_pointer_and_stops_where_it_may_not_stand(tools, open_page):
    tool = tools("pipeline_schedules", "en")
    page = open_page(tool).page
    slider = page.get_by_label(label(tool, "cut3"), exact=True)
    page.locator(GRIP).scroll_into_view_if_needed()

    def pull(by: float) -> str:
        box = page.locator(GRIP).bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + by, y, steps=4)
        page.mouse.up()
        page.mouse.move(x + by - 300, y)  # let go: this moves nothing any more
        page.wait_for_timeout(400)  # the grip has arrived
        return slider.get_attribute("aria-valuetext")

    before, summary = slider.get_attribute("aria-valuetext"), page.locator("figcaption").last
    said = summary.text_content()
    right = pull(45)
    assert int(right) > int(before)
    assert summary.text_content() != said
    assert pull(2000) == "28", "the last place that the boundary may take"
    assert pull(-2000) == "22"
