from __future__ import annotations

from skillopt.core.chat import Image, Message, Reply, ToolCall, Usage


def test_a_reply_goes_on_in_the_conversation_with_all_that_the_provider_needs_back() -> None:
    calls = (ToolCall("1", "look", "{}"),)
    reply = Reply(text="I look.", calls=calls, memo="signed")
    assert reply.message() == Message("assistant", "I look.", calls=calls, memo="signed")


def test_usage_adds_up_field_by_field() -> None:
    one = Usage(1, 20, 300, 4, 0.5, 6, 7)
    assert one + Usage(10, 2, 3, 40, 0.25, 60, 70) == Usage(11, 22, 303, 44, 0.75, 66, 77)


def test_an_image_holds_its_bytes_in_base64() -> None:
    assert Image.of(b"\x00\xff", "image/png") == Image("image/png", "AP8=", "")
    assert Image.of(b"", "image/gif", "low") == Image("image/gif", "", "low")
