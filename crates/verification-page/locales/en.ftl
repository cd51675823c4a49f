# Messages of the hosted verification page, of the page of a single check, and of the sign-in page.
#
# $brand is the name of the company that asks for the verification.
# $tail is the last four digits of the user's phone number, and after the end the last two.
# $example is a simulated phone number.

number = Your number ending in { $tail }
not-your-number = Not your number?
sandbox = Test mode: simulated phone numbers only
# Before the minutes and seconds that are left, such as 1:30.
time-left = Time left:
# Link to the company's support.
support = Need help?
# Name of the language switch, for screen readers.
language = Language

## Silent check by the mobile operator

start-title = Confirm your phone number
start-text = { $brand } would like to confirm that this phone has your number. Turn on mobile data, turn off Wi-Fi, then continue.
start-button = Confirm this phone
# On a computer, above a QR code and the three steps scan-camera, start-open and start-follow.
start-computer-text = { $brand } would like to confirm your phone number. Continue on the phone with that number:
scan-camera = Point your phone’s camera at the code.
start-open = Open the link that appears.
start-follow = Follow the steps there. This page updates by itself.
# For a computer that is on mobile data, or a phone that looks like a computer.
start-here = Continue on this device
start-scan-label = QR code with this page
# For a phone whose wallet can ask the operator over Wi-Fi.
wallet-text = { $brand } would like to confirm that this phone has your number. Tap the button, then agree on the next screen. Wi-Fi can stay on.
wallet-button = Confirm with this phone
# The request to the wallet came late, so the browser wants another tap. The text of the button is then “continue”.
wallet-again = Tap the button again to continue.
silent-title = Confirming your number
silent-text = Your mobile operator is confirming your number. This only takes a few seconds.
continue = Continue
other-way = Try another way
# The browser went to the operator, and has not come back.
stalled-title = No answer yet
stalled-text = Your mobile operator hasn’t answered. Try again, or choose another way.
# The operator has answered, and the company's server has to fetch the result.
confirming-title = Almost done
confirming-text = Your mobile operator has answered. { $brand } is completing the check.
# For the browser that went to the operator.
confirming-own-text = Your mobile operator has answered. One more step and you’re done.
# For other browsers than the one that went to the operator.
confirming-elsewhere = Finish where you started. This page follows by itself.
# As stalled-text, if no other way is left.
stalled-only-text = Your mobile operator has not answered. Check that mobile data is on, then try again.
# Asked before the end, if no other way is left.
ask-whether-to-stop-title = Stop here?
ask-whether-to-stop-text = There is no other way to confirm your number.
# Another browser went to the operator just now, such as that of the phone.
elsewhere-title = Continue on your phone
elsewhere-text = Your number is being confirmed on your phone or in another browser. This page follows by itself.
# After a tap: the silent check is bound to the browser by a cookie.
allow-cookies = This step needs a cookie, and your browser blocked it. Allow cookies for this page, then try again.

## Text message from the user to us

text-title = Send us a text message
text-text = Send the message below, as it is, from the phone you’re confirming. Your operator’s usual price for a text applies.
# Against fraudsters who talk people into sending a text.
text-warning = Only send this text if you started this yourself.
# On a computer, above a QR code and the three steps scan-camera, text-open and text-send.
text-computer-text = Text us from the phone you’re confirming. Your operator’s usual price for a text applies.
text-open = Open the message that appears.
text-send = Send it as it is.
# On a computer, above the receiver and the message.
text-by-hand = Or type the message yourself
# Opens the messaging app of the phone with the message filled in.
text-button = Open messaging app
text-scan-label = QR code with the text message
text-receiver = To
text-body = Message
copy-receiver = Copy number
copy-body = Copy message
copied = Copied
# The browser does not let the page copy. The text is selected.
copy-failed = Your browser blocked copying. The text is selected: copy it yourself.
text-waiting = Waiting for your message…
text-cannot = I can’t send a text
# The message came from another number, such as that of the other SIM of the phone.
other-sender-title = Send it from the other SIM
other-sender-text = That text came from another number. Send it again with the SIM whose number ends in { $tail }.
# A part of the message has arrived, or a message from the right phone with another text.
received-title = We received a message
received-text = We’re checking it. If nothing happens in a few seconds, send the message below again, exactly as it is.
# Asked before the end.
ask-whether-to-give-up-title = Can’t send a text?
ask-whether-to-give-up-text = Without it, we can’t confirm your number.
ask-whether-to-give-up-yes = Stop without confirming
ask-if-wrong-number-title = Not your number?
ask-if-wrong-number-text = { $brand } wants to confirm the number ending in { $tail }. If it isn’t yours, stop here.
ask-if-wrong-number-yes = That’s not my number
ask-no = Go back

## SIM Swap check

sim-title = One more check
sim-text = We’re asking your mobile operator whether your SIM card was changed recently.

## Results

done-title = Number confirmed
done-text = Thank you. Your phone number is confirmed.
mismatch-title = Number not confirmed
# On a phone; the other text is for computers.
mismatch-phone-text = That’s not this phone’s number. Check the number you gave { $brand }, then try again.
mismatch-text = The number that replied isn’t the one you gave { $brand }. Check the number, then try again.
failed-title = We couldn’t confirm your number
failed-text = None of the ways to confirm it worked. Go back to { $brand } to try again.
given-up-title = Number not confirmed
given-up-text = You stopped before we could confirm your number. Go back to { $brand } to try again.
wrong-number-title = Thank you for telling us
wrong-number-text = Nothing was confirmed. Go back to { $brand } to enter your number.
cancelled-title = No longer needed
cancelled-text = { $brand } has cancelled this confirmation.
expired-title = This link has expired
expired-text = Your number wasn’t confirmed in time. Go back to { $brand } to start again.
return-link = Back to { $brand }
close = You can close this page now.

## Errors

unknown-title = This link isn’t valid
unknown-text = Check that you opened the whole link, or start again on the site that sent you here.
busy-title = Too many attempts
busy-text = Wait a minute, then try again.
unavailable-title = Something went wrong
unavailable-text = This page isn’t available right now. Try again in a minute.
refused-title = Open the page again
refused-text = For your security, you can only continue from this page.
retry = Try again

## Page of a single check, whose link was opened in a browser

# The user copies the code.
enter-code-text = Enter this code in the app or on the site that sent you here. It works once and expires soon.
device-failed-text = Your mobile operator couldn’t confirm your number. Go back to the app or site that sent you here to try another way.
not-mobile-title = This phone isn’t using mobile data
not-mobile-text = We can only confirm your number over mobile data. Turn off Wi-Fi, then go back to the app or site that sent you here and try again.
used-title = This link has already been used
other-browser-title = Started in another browser
other-browser-text = Nothing was confirmed. If you started this yourself, go back to the browser you started in. Otherwise you can close this page.
start-again-text = Go back to the app or site that sent you here to start again.
# After other-browser-text: a browser that blocks cookies looks like another one.
other-browser-cookies = If you are still in that browser, allow cookies and start again.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Sign in to { $brand }
sign-in-text = Enter your mobile number. Next, we’ll check that it’s yours.
# Label of the list of countries.
sign-in-country = Country or region
# First entry of the list of countries, if we could not guess the country.
sign-in-choose-country = Choose…
sign-in-number = Mobile number
# Below the number: both forms are accepted.
sign-in-hint = With or without the country code
# Instead of sign-in-hint, in test mode.
sign-in-sandbox-hint = Use a simulated number, such as { $example }
sign-in-privacy = We only use your number to sign you in to { $brand }.
# Button: the mobile operator tells us the number of this phone.
sign-in-discover = Use this phone’s number
sign-in-cancel = Cancel
# The browser went to the operator to find the number. Link to the page with the number entry.
sign-in-enter-number = Enter your number instead
# As stalled-text.
sign-in-stalled-text = Your mobile operator hasn’t answered. Try again, or enter your number.
# Problems with the number that the user entered.
sign-in-invalid = This doesn’t look like a phone number. Check it, then try again.
sign-in-not-supported = We can’t confirm this number. Try another mobile number.
sign-in-too-many-attempts = Too many attempts with this number. Try again later, or use another number.
sign-in-try-later = We can’t check numbers right now. Try again in a minute.
sign-in-missing-country = Choose your country, or start the number with + and the country code.
# For a browser that did not begin the sign-in, such as that of a phone that scanned the QR code. The step is complete.
sign-in-ended-title = Continue where you started
sign-in-ended-text = There is nothing more to do here. Go back to the browser in which you started to sign in.
sign-in-cancelled-title = Sign-in cancelled
sign-in-cancelled-text = You aren’t signed in. Go back to { $brand } to try again.
sign-in-expired-title = This took too long
sign-in-expired-text = For your security, you have to start again. Go back to { $brand }.
# After unavailable-title.
sign-in-failed-text = We couldn’t sign you in. Go back to { $brand } to try again.
# The app made a request that we refuse. Only its developers can mend it.
sign-in-refused-title = We can’t sign you in
sign-in-refused-text = The app or site that sent you here made an invalid request. Go back and try again, or ask its support for help.
# Heading of an English text for developers, hidden at first.
sign-in-detail = Details for developers
