number = Nomor Anda yang berakhiran { $tail }
not-your-number = Bukan nomor Anda?
sandbox = Mode uji: hanya nomor telepon simulasi
time-left = Sisa waktu:
support = Perlu bantuan?
language = Bahasa

## Silent check by the mobile operator

start-title = Konfirmasi nomor telepon Anda
start-text = { $brand } ingin mengonfirmasi bahwa ponsel ini memakai nomor Anda. Aktifkan data seluler, nonaktifkan Wi-Fi, lalu lanjutkan.
start-button = Konfirmasi ponsel ini
start-computer-text = { $brand } ingin mengonfirmasi nomor telepon Anda. Lanjutkan di ponsel dengan nomor tersebut:
scan-camera = Arahkan kamera ponsel Anda ke kode ini.
start-open = Buka tautan yang muncul.
start-follow = Ikuti langkah-langkah di sana. Halaman ini akan diperbarui otomatis.
start-here = Lanjutkan di perangkat ini
start-scan-label = Kode QR untuk halaman ini
wallet-text = { $brand } ingin mengonfirmasi bahwa ponsel ini memakai nomor Anda. Ketuk tombol, lalu setujui di layar berikutnya. Wi-Fi boleh tetap aktif.
wallet-button = Konfirmasi via ponsel
wallet-again = Ketuk tombol sekali lagi untuk melanjutkan.
silent-title = Mengonfirmasi nomor Anda
silent-text = Operator seluler Anda sedang mengonfirmasi nomor Anda. Prosesnya hanya beberapa detik.
continue = Lanjutkan
other-way = Coba cara lain
stalled-title = Belum ada respons
stalled-text = Operator seluler Anda belum merespons. Coba lagi atau pilih cara lain.
confirming-title = Hampir selesai
confirming-text = Operator seluler Anda sudah merespons. { $brand } sedang menyelesaikan pemeriksaan.
confirming-own-text = Operator seluler Anda sudah merespons. Tinggal satu langkah lagi.
confirming-elsewhere = Selesaikan di tempat Anda memulai. Halaman ini akan berlanjut otomatis.
stalled-only-text = Operator seluler Anda belum merespons. Pastikan data seluler aktif, lalu coba lagi.
ask-whether-to-stop-title = Berhenti di sini?
ask-whether-to-stop-text = Tidak ada cara lain untuk mengonfirmasi nomor Anda.
elsewhere-title = Lanjutkan di ponsel Anda
elsewhere-text = Nomor Anda sedang dikonfirmasi di ponsel Anda atau di browser lain. Halaman ini akan berlanjut otomatis.
allow-cookies = Langkah ini memerlukan cookie, tetapi browser Anda memblokirnya. Izinkan cookie untuk halaman ini, lalu coba lagi.

## Text message from the user to us

text-title = Kirim SMS kepada kami
text-text = Kirim pesan di bawah ini tanpa diubah dari ponsel yang ingin Anda konfirmasi. Tarif SMS normal dari operator Anda berlaku.
text-warning = Kirim SMS ini hanya jika Anda sendiri yang memulai proses ini.
text-computer-text = Kirim SMS kepada kami dari ponsel yang ingin Anda konfirmasi. Tarif SMS normal dari operator Anda berlaku.
text-open = Buka pesan yang muncul.
text-send = Kirim tanpa diubah.
text-by-hand = Atau ketik sendiri pesannya
text-button = Buka aplikasi pesan
text-scan-label = Kode QR berisi SMS
text-receiver = Kepada
text-body = Pesan
copy-receiver = Salin nomor
copy-body = Salin pesan
copied = Tersalin
copy-failed = Browser Anda memblokir penyalinan. Teks sudah dipilih: silakan salin sendiri.
text-waiting = Menunggu pesan Anda…
text-cannot = Saya tidak bisa mengirim SMS
other-sender-title = Kirim dari kartu SIM yang satu lagi
other-sender-text = SMS itu berasal dari nomor lain. Kirim lagi dari kartu SIM yang nomornya berakhiran { $tail }.
received-title = Kami menerima sebuah pesan
received-text = Kami sedang memeriksanya. Jika tidak ada perubahan dalam beberapa detik, kirim lagi pesan di bawah ini tanpa diubah.
ask-whether-to-give-up-title = Tidak bisa mengirim SMS?
ask-whether-to-give-up-text = Tanpa SMS itu, kami tidak bisa mengonfirmasi nomor Anda.
ask-whether-to-give-up-yes = Berhenti tanpa konfirmasi
ask-if-wrong-number-title = Bukan nomor Anda?
ask-if-wrong-number-text = { $brand } ingin mengonfirmasi nomor yang berakhiran { $tail }. Jika itu bukan nomor Anda, berhentilah di sini.
ask-if-wrong-number-yes = Itu bukan nomor saya
ask-no = Kembali

## SIM Swap check

sim-title = Satu pemeriksaan lagi
sim-text = Kami sedang menanyakan kepada operator seluler Anda apakah kartu SIM Anda baru-baru ini diganti.

## Results

done-title = Nomor sudah dikonfirmasi
done-text = Terima kasih. Nomor telepon Anda sudah dikonfirmasi.
mismatch-title = Nomor belum dikonfirmasi
mismatch-phone-text = Itu bukan nomor ponsel ini. Periksa nomor yang Anda berikan kepada { $brand }, lalu coba lagi.
mismatch-text = Nomor yang merespons bukan nomor yang Anda berikan kepada { $brand }. Periksa nomornya, lalu coba lagi.
failed-title = Kami tidak bisa mengonfirmasi nomor Anda
failed-text = Tidak ada cara konfirmasi yang berhasil. Kembali ke { $brand } untuk mencoba lagi.
given-up-title = Nomor belum dikonfirmasi
given-up-text = Anda berhenti sebelum nomor Anda dikonfirmasi. Kembali ke { $brand } untuk mencoba lagi.
wrong-number-title = Terima kasih sudah memberi tahu kami
wrong-number-text = Tidak ada nomor yang dikonfirmasi. Kembali ke { $brand } untuk memasukkan nomor Anda.
cancelled-title = Tidak diperlukan lagi
cancelled-text = { $brand } sudah membatalkan konfirmasi ini.
expired-title = Tautan ini sudah kedaluwarsa
expired-text = Nomor Anda tidak dikonfirmasi tepat waktu. Kembali ke { $brand } untuk memulai lagi.
return-link = Kembali ke { $brand }
close = Sekarang Anda bisa menutup halaman ini.

## Errors

unknown-title = Tautan ini tidak valid
unknown-text = Pastikan Anda membuka tautan secara lengkap, atau mulai lagi di situs yang mengarahkan Anda ke sini.
busy-title = Terlalu banyak percobaan
busy-text = Tunggu satu menit, lalu coba lagi.
unavailable-title = Terjadi kesalahan
unavailable-text = Halaman ini sedang tidak tersedia. Coba lagi dalam satu menit.
refused-title = Buka kembali halaman ini
refused-text = Demi keamanan, Anda hanya bisa melanjutkan dari halaman ini.
retry = Coba lagi

## Page of a single check, whose link was opened in a browser

enter-code-text = Masukkan kode ini di aplikasi atau situs yang mengarahkan Anda ke sini. Kode hanya berlaku satu kali dan segera kedaluwarsa.
device-failed-text = Operator seluler Anda tidak bisa mengonfirmasi nomor Anda. Kembali ke aplikasi atau situs yang mengarahkan Anda ke sini untuk mencoba cara lain.
not-mobile-title = Ponsel ini tidak memakai data seluler
not-mobile-text = Nomor Anda hanya bisa dikonfirmasi melalui data seluler. Nonaktifkan Wi-Fi, kembali ke aplikasi atau situs yang mengarahkan Anda ke sini, lalu coba lagi.
used-title = Tautan ini sudah pernah dipakai
other-browser-title = Dimulai di browser lain
other-browser-text = Tidak ada nomor yang dikonfirmasi. Jika Anda sendiri yang memulai, kembali ke browser tempat Anda memulai. Jika bukan, Anda bisa menutup halaman ini.
start-again-text = Kembali ke aplikasi atau situs yang mengarahkan Anda ke sini untuk memulai lagi.
other-browser-cookies = Jika Anda masih di browser tersebut, izinkan cookie dan mulai lagi.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Masuk ke { $brand }
sign-in-text = Masukkan nomor ponsel Anda. Setelah itu kami akan memeriksa bahwa nomor itu milik Anda.
sign-in-country = Negara atau wilayah
sign-in-choose-country = Pilih…
sign-in-number = Nomor ponsel
sign-in-hint = Dengan atau tanpa kode negara
sign-in-sandbox-hint = Gunakan nomor simulasi, misalnya { $example }
sign-in-privacy = Kami hanya menggunakan nomor Anda agar Anda masuk ke { $brand }.
sign-in-discover = Pakai nomor ponsel ini
sign-in-cancel = Batal
sign-in-enter-number = Masukkan nomor saja
sign-in-stalled-text = Operator seluler Anda belum menjawab. Coba lagi, atau masukkan nomor Anda.
sign-in-invalid = Ini tidak tampak seperti nomor telepon. Periksa, lalu coba lagi.
sign-in-not-supported = Kami tidak dapat mengonfirmasi nomor ini. Coba nomor ponsel lain.
sign-in-too-many-attempts = Terlalu banyak percobaan dengan nomor ini. Coba lagi nanti, atau gunakan nomor lain.
sign-in-try-later = Kami sedang tidak dapat memeriksa nomor. Coba lagi sebentar lagi.
sign-in-missing-country = Pilih negara Anda, atau awali nomor dengan + dan kode negara.
sign-in-ended-title = Lanjutkan di tempat Anda memulai
sign-in-ended-text = Tidak ada lagi yang perlu dilakukan di sini. Kembali ke browser tempat Anda mulai masuk.
sign-in-cancelled-title = Proses masuk dibatalkan
sign-in-cancelled-text = Anda belum masuk. Kembali ke { $brand } untuk mencoba lagi.
sign-in-expired-title = Waktunya habis
sign-in-expired-text = Demi keamanan Anda, Anda harus mulai lagi. Kembali ke { $brand }.
sign-in-failed-text = Kami tidak dapat memasukkan Anda. Kembali ke { $brand } untuk mencoba lagi.
sign-in-refused-title = Anda tidak dapat masuk
sign-in-refused-text = Aplikasi atau situs yang mengirim Anda ke sini membuat permintaan yang tidak valid. Kembali dan coba lagi, atau minta bantuan dukungannya.
sign-in-detail = Detail untuk pengembang
