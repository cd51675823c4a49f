# Messages of the hosted verification page, and of the page of a single check.
#
# $brand is the name of the company that asks for the verification.
# $tail is the last two digits of the user's phone number.

number = Your number ending in { $tail }
sandbox = Test mode: simulated phone numbers only

## Silent check by the mobile operator

start-title = Confirm your phone number
start-text = { $brand } asks you to confirm that this phone has your number. Turn on mobile data, turn off Wi-Fi, then continue.
start-button = Confirm this phone
silent-title = Confirming your number
silent-text = Your mobile operator is confirming your number. This takes a few seconds.
continue = Continue
other-way = Try another way
# The operator has answered, and the company's server has to fetch the result.
confirming-title = Almost done
confirming-text = Your mobile operator has answered. { $brand } is completing the check.

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
text-cannot = I cannot send a text message
# A part of the message has arrived, or a message from the right phone with another text.
received-title = We received a message
received-text = We are checking it. If this page does not continue in a few seconds, send the message below again, without any change.

## SIM Swap check

sim-title = One more check
sim-text = We are asking your mobile operator whether your SIM card was changed recently.

## Results

done-title = Number confirmed
done-text = Thank you. Your phone number is confirmed.
mismatch-title = Number not confirmed
mismatch-text = This phone does not have the number that you gave to { $brand }. Check the number and try again.
failed-title = We could not confirm your number
failed-text = None of the available ways worked. Go back to { $brand } to try again.
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
start-again-text = Go back to the app or site that sent you here to start again.
