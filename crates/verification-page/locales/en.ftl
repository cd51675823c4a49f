# Messages of the hosted verification page, and of the page of a single check.
#
# $brand is the name of the company that asks for the verification.
# $tail is the last four digits of the user's phone number, and after the end the last two.

number = Your number ending in { $tail }
not-your-number = Not your number?
sandbox = Test mode: simulated phone numbers only

## Silent check by the mobile operator

start-title = Confirm your phone number
start-text = { $brand } asks you to confirm that this phone has your number. Turn on mobile data, turn off Wi-Fi, then continue.
start-button = Confirm this phone
start-scan = Are you on a computer? Scan this code with your phone to go on there.
start-scan-label = QR code with this page
silent-title = Confirming your number
silent-text = Your mobile operator is confirming your number. This takes a few seconds.
continue = Continue
other-way = Try another way
# The browser went to the operator, and has not come back.
stalled-title = No answer yet
stalled-text = Your mobile operator has not answered. Try again, or choose another way.
# The operator has answered, and the company's server has to fetch the result.
confirming-title = Almost done
confirming-text = Your mobile operator has answered. { $brand } is completing the check.
# For the browser that went to the operator.
confirming-own-text = Your mobile operator has answered. One more step, and you are done.
# For other browsers than the one that went to the operator.
confirming-elsewhere = Finish where you started. This page follows by itself.
# As stalled-text, if no other way is left.
stalled-only-text = Your mobile operator has not answered. Check that mobile data is on, then try again.
# Asked before the end, if no other way is left.
ask-stop-title = Stop here?
ask-stop-text = There is no other way to confirm your number.
# Another browser went to the operator just now, such as that of the phone.
elsewhere-title = Continue on your phone
elsewhere-text = Your number is being confirmed on your phone or in another browser. This page follows by itself.
# After a tap: the silent check is bound to the browser by a cookie.
allow-cookies = This step needs a cookie, and your browser blocked it. Allow cookies for this page, then try again.

## Text message from the user to us

text-title = Send us a text message
text-text = Send the message below from the phone that you want to confirm. Do not change it. Your operator’s usual price for a text message applies.
# Opens the messaging app of the phone with the message filled in.
text-button = Open messaging app
text-scan = Scan this code with the camera of your phone to open the message there.
text-scan-label = QR code with the text message
text-receiver = To
text-body = Message
copy-receiver = Copy number
copy-body = Copy message
copied = Copied
text-waiting = Waiting for your message. This page continues by itself.
text-cannot = I can’t send a text
# The message came from another number, such as that of the other SIM of the phone.
other-sender-title = Send it from the other SIM
other-sender-text = That text came from another number. Send it again with the SIM whose number ends in { $tail }.
# A part of the message has arrived, or a message from the right phone with another text.
received-title = We received a message
received-text = We are checking it. If this page does not continue in a few seconds, send the message below again, without any change.
# Asked before the end.
ask-give-up-title = Can’t send a text?
ask-give-up-text = Without it we cannot confirm your number.
ask-give-up-yes = Stop without confirming
ask-wrong-number-title = Not your number?
ask-wrong-number-text = { $brand } asks to confirm the number ending in { $tail }. If it is not yours, stop here.
ask-wrong-number-yes = That’s not my number
ask-no = Go back

## SIM Swap check

sim-title = One more check
sim-text = We are asking your mobile operator whether your SIM card was changed recently.

## Results

done-title = Number confirmed
done-text = Thank you. Your phone number is confirmed.
mismatch-title = Number not confirmed
# On a phone; the other text is for computers.
mismatch-phone-text = That’s not this phone’s number. Check the number that you gave to { $brand }, then try again.
mismatch-text = The number that answered is not the one that you gave to { $brand }. Check the number, then try again.
failed-title = We could not confirm your number
failed-text = None of the available ways worked. Go back to { $brand } to try again.
given-up-title = Number not confirmed
given-up-text = You stopped before your number was confirmed. Go back to { $brand } to try again.
wrong-number-title = Thank you for telling us
wrong-number-text = Nothing was confirmed. Go back to { $brand } to enter your number.
cancelled-title = No longer needed
cancelled-text = { $brand } has cancelled this confirmation.
expired-title = This link has expired
expired-text = The number was not confirmed in time. Go back to { $brand } to start again.
return-link = Back to { $brand }
close = You can close this page now.

## Errors

unknown-title = This link is not valid
unknown-text = Check that you opened the complete link, or start again on the site that sent you here.
busy-title = Too many attempts
busy-text = Wait a minute, then try again.
unavailable-title = Something went wrong
unavailable-text = The page is not available at the moment. Try again in a minute.
refused-title = Open the page again
refused-text = For your security, you can only continue from this page itself.
retry = Try again

## Page of a single check, whose link was opened in a browser

# The user copies the code.
device-code-text = Enter this code in the app or on the site that sent you here. It can be used once and expires soon.
device-failed-text = Your mobile operator could not confirm your number. Go back to the app or site that sent you here to try another way.
not-mobile-title = This phone is not using mobile data
not-mobile-text = Your number can only be confirmed over mobile data. Turn off Wi-Fi, then go back to the app or site that sent you here and try again.
used-title = This link was already used
other-browser-title = Started in another browser
other-browser-text = Nothing was confirmed. If you started this yourself, go back to the browser in which you did. Otherwise you can close this page.
start-again-text = Go back to the app or site that sent you here to start again.
# After other-browser-text: a browser that blocks cookies looks like another one.
other-browser-cookies = If you are still in that browser, allow cookies and start again.
