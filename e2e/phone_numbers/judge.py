"""What PyPI `phonenumbers`, unmodified, thinks of many numbers: a line for each, with the number's bytes in hex, and
whether it is possible, is so within its country only, and is written in E.164 form already.

The numbers are the same each time: of every country code and length, close to real ones, and odd in the ways that
people write them.
"""

import random
import sys

import phonenumbers
from phonenumbers import PhoneNumberFormat, ValidationResult

CHANCE = random.Random(20261115)
CODES = sorted(phonenumbers.COUNTRY_CODE_TO_REGION_CODE)
REGIONS = sorted(phonenumbers.SUPPORTED_REGIONS)


def digits(length):
    return "".join(CHANCE.choices("0123456789", k=length))


def of_any_length():
    return f"+{CHANCE.choice(CODES)}{digits(CHANCE.randint(2, 15))}"


def nearly_real():
    example = phonenumbers.example_number_for_type(CHANCE.choice(REGIONS), CHANCE.choice([0, 1, 3, 6]))
    if example is None:
        return of_any_length()
    text = phonenumbers.format_number(example, PhoneNumberFormat.E164)
    kept = text[: -CHANCE.randint(1, 4)]
    return kept + digits(len(text) - len(kept) + CHANCE.choice([-1, 0, 0, 0, 0, 1]))


def of_any_country():
    return f"+{digits(CHANCE.randint(1, 18))}"


def as_people_write():
    text = nearly_real()
    at = CHANCE.randint(2, len(text) - 1)
    return CHANCE.choice([
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


def judge(text):
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


KINDS = [of_any_length] * 5 + [nearly_real] * 3 + [of_any_country, as_people_write]
for _ in range(int(sys.argv[1])):
    text = CHANCE.choice(KINDS)()
    print(text.encode().hex(), *(int(fact) for fact in judge(text)))
