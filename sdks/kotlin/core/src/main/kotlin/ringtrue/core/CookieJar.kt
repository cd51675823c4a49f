package ringtrue.core

import java.util.GregorianCalendar
import java.util.TimeZone

/**
 * Cookies of one chain, in memory (RFC 6265).
 *
 * There is no list of public suffixes. A `Domain` attribute counts only if it has a dot and the host lies within it;
 * otherwise the cookie is ignored, or is for the host alone if the attribute names the host. So `Domain=com` is
 * ignored, but `Domain=co.uk` is not: hosts of one chain can share cookies there until the chain ends.
 */
internal class CookieJar(private val now: () -> Long = System::currentTimeMillis) {
    private class Cookie(
        val name: String,
        val value: String,
        val domain: String,
        val hostOnly: Boolean,
        val path: String,
        val secure: Boolean,
        val expiresAt: Long,
    ) {
        fun isSameAs(other: Cookie): Boolean =
            name == other.name && domain == other.domain && path == other.path && hostOnly == other.hostOnly
    }

    /** In order of creation. */
    private val cookies = ArrayList<Cookie>()

    /** Stores the cookies of a response's `Set-Cookie` fields. Invalid ones are ignored, as RFC 6265 demands. */
    fun store(url: HttpUrl, fields: List<String>) {
        for (field in fields) {
            val cookie = parse(url, field) ?: continue
            val index = cookies.indexOfFirst { it.isSameAs(cookie) }
            // An insecure response must not replace a secure cookie (RFC 6265bis, section 5.7).
            if (index >= 0 && cookies[index].secure && !url.secure) continue
            val isExpired = cookie.expiresAt <= now()
            when {
                index >= 0 && isExpired -> cookies.removeAt(index)

                index >= 0 -> cookies[index] = cookie

                !isExpired -> {
                    cookies.add(cookie)
                    if (cookies.size > MAX_COOKIES) cookies.removeAt(0)
                }
            }
        }
    }

    /** The `Cookie` field for a request; null if no cookie applies. */
    fun header(url: HttpUrl): String? {
        val header = StringBuilder()
        for (cookie in cookies.filter { appliesTo(it, url) }.sortedByDescending { it.path.length }) {
            val pair = "${cookie.name}=${cookie.value}"
            if (header.length + pair.length > MAX_HEADER_LENGTH) break
            if (header.isNotEmpty()) header.append("; ")
            header.append(pair)
        }
        return if (header.isEmpty()) null else header.toString()
    }

    private fun appliesTo(cookie: Cookie, url: HttpUrl): Boolean {
        if (cookie.expiresAt <= now() || (cookie.secure && !url.secure)) return false
        val hostMatches = if (cookie.hostOnly) url.host == cookie.domain else domainMatches(url, cookie.domain)
        return hostMatches && pathMatches(url.path, cookie.path)
    }

    private fun parse(url: HttpUrl, field: String): Cookie? {
        val parts = field.split(';')
        val name = parts[0].substringBefore('=', "").trim(' ', '\t')
        val value = parts[0].substringAfter('=').trim(' ', '\t')
        if (name.isEmpty() || name.length + value.length > MAX_COOKIE_LENGTH) return null
        // Bytes outside ASCII would be sent back differently encoded.
        if (!(name + value).all { it.code in 0x20..0x7E }) return null

        var domain: String? = null
        var path: String? = null
        var secure = false
        var maxAge: Long? = null
        var expires: Long? = null
        for (part in parts.drop(1)) {
            val attribute = part.substringAfter('=', "").trim(' ', '\t')
            when (part.substringBefore('=').trim(' ', '\t').lowercase()) {
                "domain" -> domain = attribute.removePrefix(".").lowercase()
                "path" -> path = if (attribute.startsWith("/")) attribute else null
                "secure" -> secure = true
                "max-age" -> parseMaxAge(attribute)?.let { maxAge = it }
                "expires" -> parseCookieDate(attribute)?.let { expires = it }
            }
        }
        if (secure && !url.secure) return null
        var hostOnly = true
        if (!domain.isNullOrEmpty()) {
            if (domain != url.host) {
                if (!domain.contains('.') || !domainMatches(url, domain)) return null
                hostOnly = false
            } else {
                hostOnly = url.address != null || !domain.contains('.')
            }
        }
        if (name.startsWith("__Secure-", ignoreCase = true) && !secure) return null
        if (name.startsWith("__Host-", ignoreCase = true) &&
            !(secure && domain.isNullOrEmpty() && path == "/")
        ) {
            return null
        }
        val expiresAt = maxAge?.let { if (it <= 0) Long.MIN_VALUE else now() + it * 1_000 } ?: expires ?: Long.MAX_VALUE
        val scope = if (domain.isNullOrEmpty()) url.host else domain
        return Cookie(name, value, scope, hostOnly, path ?: defaultPath(url.path), secure, expiresAt)
    }

    private fun parseMaxAge(text: String): Long? {
        val digits = text.removePrefix("-")
        if (digits.isEmpty() || !digits.all { it.isAsciiDigit() }) return null
        if (text.startsWith("-")) return 0
        return if (digits.length > 9) MAX_AGE_SECONDS else digits.toLong()
    }

    internal companion object {
        private const val MAX_COOKIES = 50
        private const val MAX_COOKIE_LENGTH = 4_096
        private const val MAX_HEADER_LENGTH = 8_192
        private const val MAX_AGE_SECONDS = 999_999_999L
        private val MONTHS = listOf("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

        /** RFC 6265, section 5.1.3. Addresses have no subdomains. */
        private fun domainMatches(url: HttpUrl, domain: String): Boolean =
            url.host == domain || (url.address == null && url.host.endsWith(".$domain"))

        /** RFC 6265, section 5.1.4. */
        private fun defaultPath(path: String): String = path.substring(0, path.lastIndexOf('/')).ifEmpty { "/" }

        private fun pathMatches(path: String, scope: String): Boolean =
            path == scope || (path.startsWith(scope) && (scope.endsWith("/") || path[scope.length] == '/'))

        /** RFC 6265, section 5.1.1: milliseconds since 1970, or null if the date is invalid. */
        fun parseCookieDate(text: String): Long? {
            var time: List<Int>? = null
            var day = -1
            var month = -1
            var year = -1
            for (token in text.split(' ', '\t', ',', ';', '-', '/')) {
                val number = token.takeWhile { it.isAsciiDigit() }
                when {
                    token.isEmpty() -> continue

                    time == null && token.contains(':') -> time = parseTime(token) ?: return null

                    day < 0 && number.length in 1..2 -> day = number.toInt()

                    month < 0 && token.length >= 3 && MONTHS.indexOf(token.take(3).lowercase()) >= 0 ->
                        month = MONTHS.indexOf(token.take(3).lowercase())

                    year < 0 && number.length in 2..4 -> year = number.toInt()
                }
            }
            if (year in 70..99) {
                year += 1900
            } else if (year in 0..69) {
                year += 2000
            }
            if (time == null || day !in 1..31 || month < 0 || year < 1601) return null
            val calendar = GregorianCalendar(TimeZone.getTimeZone("UTC"))
            calendar.clear()
            calendar.isLenient = false
            calendar.set(year, month, day, time[0], time[1], time[2])
            return try {
                calendar.timeInMillis
            } catch (impossible: IllegalArgumentException) {
                null
            }
        }

        private fun parseTime(token: String): List<Int>? {
            val fields = token.split(':')
            if (fields.size != 3) return null
            val numbers = fields.map { field -> field.takeWhile { it.isAsciiDigit() } }
            if (!numbers.all { it.length in 1..2 }) return null
            val values = numbers.map { it.toInt() }
            return if (values[0] <= 23 && values[1] <= 59 && values[2] <= 59) values else null
        }
    }
}
