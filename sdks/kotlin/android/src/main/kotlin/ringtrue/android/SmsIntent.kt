@file:JvmName("SmsIntents")

package ringtrue.android

import android.content.Intent
import android.net.Uri

/**
 * An intent that opens the messaging app with the prepared text of a Reverse SMS check. The user taps Send.
 *
 * Start it from an activity, and handle `ActivityNotFoundException`: tablets may have no messaging app.
 *
 * @param receiverPhoneNumber the check's `receiver_phone_number`
 * @param expectedSmsBody the check's `expected_sms_body`
 */
public fun smsIntent(receiverPhoneNumber: String, expectedSmsBody: String): Intent {
    val digits = receiverPhoneNumber.removePrefix("+")
    require(digits.length in 3..15 && digits.all { it in '0'..'9' }) { "receiverPhoneNumber is not a phone number" }
    return Intent(Intent.ACTION_SENDTO, Uri.parse("smsto:$receiverPhoneNumber")).putExtra("sms_body", expectedSmsBody)
}
