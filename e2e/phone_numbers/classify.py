"""Classifies generated numbers with PyPI `phonenumbers`, unmodified. Prints a line for each: the bytes in hex, and
three flags: possible, possible within the country only, and in E.164 form.

The numbers are the same in every run: all country codes and lengths, variations of real numbers, and common notations.
"""

import random
import sys

import phonenumbers
from phonenumbers import PhoneNumberFormat, ValidationResult

RANDOM = random.Random(20261115)
CODES = sorted(phonenumbers.COUNTRY_CODE_TO_REGION_CODE)
REGIONS = sorted(phonenumbers.SUPPORTED_REGIONS)


def digits(length):
    return "".join(RANDOM.choices("0123456789", k=length))


def any_length():
    return f"+{RANDOM.choice(CODES)}{digits(RANDOM.randint(2, 15))}"


def similar_to_real():
    example = phonenumbers.example_number_for_type(RANDOM.choice(REGIONS), RANDOM.choice([0, 1, 3, 6]))
    if example is None:
        return any_length()
    text = phonenumbers.format_number(example, PhoneNumberFormat.E164)
    prefix = text[: -RANDOM.randint(1, 4)]
    return prefix + digits(len(text) - len(prefix) + RANDOM.choice([-1, 0, 0, 0, 0, 1]))


def any_country_code():
    return f"+{digits(RANDOM.randint(1, 18))}"


def common_notation():
    text = similar_to_real()
    at = RANDOM.randint(2, len(text) - 1)
    return RANDOM.choice([
        text[1:],
        f"00{text[1:]}",
        f"{text[:at]} {text[at:]}",
        f"{text[:at]}-{text[at:]}",
        f"{text[:3]}(0){text[3:]}",
        f"{text[:3]}0{text[3:]}",
        f"tel:{text}",
        f" {text}",
        f"{text};ext=5",
        f"++{text[1:]}",
        "".join(chr(ord(char) + 0xFEE0) for char in text),
        f"{text[:at]}\u0000{text[at:]}",
        f"{text[:at]}A{text[at:]}",
    ])


def classify(text):
    try:
        number = phonenumbers.parse(text, None)
    except phonenumbers.NumberParseException:
        return False, False, False
    reason = phonenumbers.is_possible_number_with_reason(number)
    return (
        phonenumbers.is_possible_number(number),
        reason == ValidationResult.IS_POSSIBLE_LOCAL_ONLY,
        phonenumbers.format_number(number, PhoneNumberFormat.E164) == text,
    )


KINDS = [any_length] * 5 + [similar_to_real] * 3 + [any_country_code, common_notation]
for _ in range(int(sys.argv[1])):
    text = RANDOM.choice(KINDS)()
    print(text.encode().hex(), *(int(flag) for flag in classify(text)))
