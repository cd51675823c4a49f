number = { $tail } ile biten numaranız
not-your-number = Bu sizin numaranız değil mi?
sandbox = Test modu: yalnızca simüle edilmiş telefon numaraları
time-left = Kalan süre:
support = Yardıma mı ihtiyacınız var?
language = Dil

## Silent check by the mobile operator

start-title = Telefon numaranızı doğrulayın
start-text = { $brand }, bu telefonda sizin numaranızın kullanıldığını doğrulamak istiyor. Mobil veriyi açın, Wi-Fi bağlantısını kapatın ve devam edin.
start-button = Bu telefonu doğrula
start-computer-text = { $brand }, telefon numaranızı doğrulamak istiyor. Bu numaranın kullanıldığı telefonda devam edin:
scan-camera = Kodu telefonunuzun kamerasıyla tarayın.
start-open = Ekranda çıkan bağlantıyı açın.
start-follow = Oradaki adımları izleyin. Bu sayfa kendiliğinden güncellenir.
start-here = Bu cihazda devam et
start-scan-label = Bu sayfanın QR kodu
wallet-text = { $brand }, bu telefonun sizin numaranıza sahip olduğunu doğrulamak istiyor. Düğmeye dokunun, sonraki ekranda onay verin. Wi-Fi açık kalabilir.
wallet-button = Bu telefonla doğrula
wallet-again = Devam etmek için düğmeye tekrar dokunun.
silent-title = Numaranız doğrulanıyor
silent-text = Mobil operatörünüz numaranızı doğruluyor. Bu işlem yalnızca birkaç saniye sürer.
continue = Devam et
other-way = Başka bir yöntem dene
stalled-title = Henüz yanıt yok
stalled-text = Mobil operatörünüz yanıt vermedi. Tekrar deneyin veya başka bir yöntem seçin.
confirming-title = Neredeyse bitti
confirming-text = Mobil operatörünüz yanıt verdi. { $brand }, kontrolü tamamlıyor.
confirming-own-text = Mobil operatörünüz yanıt verdi. Son bir adım kaldı.
confirming-elsewhere = İşlemi başlattığınız yerde tamamlayın. Bu sayfa kendiliğinden güncellenir.
stalled-only-text = Mobil operatörünüz yanıt vermedi. Mobil verinin açık olduğundan emin olup tekrar deneyin.
ask-whether-to-stop-title = İşlem burada sonlandırılsın mı?
ask-whether-to-stop-text = Numaranızı doğrulamak için başka bir yöntem yok.
elsewhere-title = Telefonunuzda devam edin
elsewhere-text = Numaranız telefonunuzda veya başka bir tarayıcıda doğrulanıyor. Bu sayfa kendiliğinden güncellenir.
allow-cookies = Bu adım için bir çerez gerekiyor ancak tarayıcınız çerezi engelledi. Bu sayfa için çerezlere izin verip tekrar deneyin.

## Text message from the user to us

text-title = Bize SMS gönderin
text-text = Aşağıdaki mesajı, doğruladığınız telefondan hiç değiştirmeden gönderin. Mobil operatörünüzün standart SMS ücreti geçerlidir.
text-warning = Bu SMS’i yalnızca işlemi kendiniz başlattıysanız gönderin.
text-computer-text = Doğruladığınız telefondan bize SMS gönderin. Mobil operatörünüzün standart SMS ücreti geçerlidir.
text-open = Ekranda çıkan mesajı açın.
text-send = Hiç değiştirmeden gönderin.
text-by-hand = Ya da mesajı kendiniz yazın
text-button = Mesajlar uygulamasını aç
text-scan-label = SMS’i içeren QR kodu
text-receiver = Alıcı
text-body = Mesaj
copy-receiver = Numarayı kopyala
copy-body = Mesajı kopyala
copied = Kopyalandı
copy-failed = Tarayıcınız kopyalamayı engelledi. Metin seçili, kendiniz kopyalayabilirsiniz.
text-waiting = Mesajınız bekleniyor…
text-cannot = SMS gönderemiyorum
other-sender-title = Diğer SIM karttan gönderin
other-sender-text = SMS başka bir numaradan geldi. Numarası { $tail } ile biten SIM karttan tekrar gönderin.
received-title = Bir mesaj aldık
received-text = Mesajı kontrol ediyoruz. Birkaç saniye içinde bir gelişme olmazsa aşağıdaki mesajı hiç değiştirmeden tekrar gönderin.
ask-whether-to-give-up-title = SMS gönderemiyor musunuz?
ask-whether-to-give-up-text = SMS olmadan numaranızı doğrulayamayız.
ask-whether-to-give-up-yes = Doğrulamadan sonlandır
ask-if-wrong-number-title = Bu sizin numaranız değil mi?
ask-if-wrong-number-text = { $brand }, { $tail } ile biten numarayı doğrulamak istiyor. Bu numara sizin değilse işlemi burada sonlandırın.
ask-if-wrong-number-yes = Bu benim numaram değil
ask-no = Geri dön

## SIM Swap check

sim-title = Bir kontrol daha
sim-text = Mobil operatörünüze, SIM kartınızın yakın zamanda değiştirilip değiştirilmediğini soruyoruz.

## Results

done-title = Numara doğrulandı
done-text = Teşekkür ederiz. Telefon numaranız doğrulandı.
mismatch-title = Numara doğrulanmadı
mismatch-phone-text = Numara bu telefona ait değil. { $brand } ile paylaştığınız numarayı kontrol edip tekrar deneyin.
mismatch-text = Yanıt veren numara, { $brand } ile paylaştığınız numara değil. Numarayı kontrol edip tekrar deneyin.
failed-title = Numaranızı doğrulayamadık
failed-text = Doğrulama yöntemlerinin hiçbiri sonuç vermedi. Tekrar denemek için { $brand } sayfasına dönün.
given-up-title = Numara doğrulanmadı
given-up-text = Numaranız doğrulanmadan işlemi sonlandırdınız. Tekrar denemek için { $brand } sayfasına dönün.
wrong-number-title = Bildirdiğiniz için teşekkür ederiz
wrong-number-text = Herhangi bir doğrulama yapılmadı. Numaranızı girmek için { $brand } sayfasına dönün.
cancelled-title = Doğrulama artık gerekli değil
cancelled-text = { $brand }, bu doğrulamayı iptal etti.
expired-title = Bu bağlantının süresi doldu
expired-text = Numaranız zamanında doğrulanmadı. Yeniden başlamak için { $brand } sayfasına dönün.
return-link = { $brand } sayfasına dön
close = Artık bu sayfayı kapatabilirsiniz.

## Errors

unknown-title = Bu bağlantı geçerli değil
unknown-text = Bağlantının tamamını açtığınızdan emin olun veya sizi buraya yönlendiren sitede yeniden başlayın.
busy-title = Çok fazla deneme yapıldı
busy-text = Bir dakika bekleyip tekrar deneyin.
unavailable-title = Bir sorun oluştu
unavailable-text = Bu sayfa şu anda kullanılamıyor. Bir dakika sonra tekrar deneyin.
refused-title = Sayfayı yeniden açın
refused-text = Güvenliğiniz için yalnızca bu sayfadan devam edebilirsiniz.
retry = Tekrar dene

## Page of a single check, whose link was opened in a browser

enter-code-text = Bu kodu, sizi buraya yönlendiren uygulamaya veya siteye girin. Kod tek kullanımlıktır ve süresi yakında dolar.
device-failed-text = Mobil operatörünüz numaranızı doğrulayamadı. Başka bir yöntem denemek için sizi buraya yönlendiren uygulamaya veya siteye dönün.
not-mobile-title = Bu telefon mobil veri kullanmıyor
not-mobile-text = Numaranızı yalnızca mobil veri üzerinden doğrulayabiliriz. Wi-Fi bağlantısını kapatın, sizi buraya yönlendiren uygulamaya veya siteye dönüp tekrar deneyin.
used-title = Bu bağlantı daha önce kullanıldı
other-browser-title = Başka bir tarayıcıda başlatıldı
other-browser-text = Herhangi bir doğrulama yapılmadı. İşlemi kendiniz başlattıysanız başlattığınız tarayıcıya dönün. Aksi hâlde bu sayfayı kapatabilirsiniz.
start-again-text = Yeniden başlamak için sizi buraya yönlendiren uygulamaya veya siteye dönün.
other-browser-cookies = Hâlâ o tarayıcıdaysanız çerezlere izin verip yeniden başlayın.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = { $brand } için oturum açın
sign-in-text = Cep telefonu numaranızı girin. Ardından numaranın size ait olduğunu doğrulayacağız.
sign-in-country = Ülke veya bölge
sign-in-choose-country = Seçin…
sign-in-number = Cep telefonu numarası
sign-in-hint = Ülke kodu ile veya ülke kodu olmadan
sign-in-sandbox-hint = Simüle edilmiş bir numara kullanın, örneğin { $example }
sign-in-privacy = Numaranızı yalnızca { $brand } oturumunuzu açmak için kullanırız.
sign-in-discover = Bu telefonu kullan
sign-in-cancel = İptal
sign-in-enter-number = Bunun yerine numarayı girin
sign-in-stalled-text = Mobil operatörünüz yanıt vermedi. Tekrar deneyin veya numaranızı girin.
sign-in-invalid = Bu bir telefon numarasına benzemiyor. Kontrol edip tekrar deneyin.
sign-in-not-supported = Bu numarayı doğrulayamıyoruz. Başka bir cep telefonu numarası deneyin.
sign-in-too-many-attempts = Bu numarayla çok fazla deneme yapıldı. Daha sonra tekrar deneyin veya başka bir numara kullanın.
sign-in-try-later = Şu anda numaraları kontrol edemiyoruz. Bir dakika sonra tekrar deneyin.
sign-in-missing-country = Ülkenizi seçin veya numaraya + ve ülke kodu ile başlayın.
sign-in-ended-title = Başladığınız yerde devam edin
sign-in-ended-text = Burada yapılacak başka bir şey yok. Oturum açmaya başladığınız tarayıcıya dönün.
sign-in-cancelled-title = Oturum açma iptal edildi
sign-in-cancelled-text = Oturum açmadınız. Tekrar denemek için { $brand } sayfasına dönün.
sign-in-expired-title = Bu çok uzun sürdü
sign-in-expired-text = Güvenliğiniz için yeniden başlamanız gerekiyor. { $brand } sayfasına dönün.
sign-in-failed-text = Oturumunuzu açamadık. Tekrar denemek için { $brand } sayfasına dönün.
sign-in-refused-title = Oturumunuzu açamıyoruz
sign-in-refused-text = Geldiğiniz uygulama veya site geçersiz bir istekte bulundu. Geri dönüp tekrar deneyin veya destek ekibinden yardım isteyin.
sign-in-detail = Geliştiriciler için ayrıntılar
