number = お客様の電話番号（末尾{ $tail }）
not-your-number = 番号が違いますか？
sandbox = テストモード：シミュレーション用の電話番号のみ
time-left = 残り時間：
support = お困りですか？
language = 言語

## Silent check by the mobile operator

start-title = 電話番号の確認
start-text = お客様の電話番号がこのスマートフォンのものであることを、{ $brand }が確認します。モバイルデータ通信をオン、Wi-Fiをオフにして、続けてください。
start-button = このスマートフォンで確認する
start-computer-text = { $brand }がお客様の電話番号を確認します。その電話番号のスマートフォンで続けてください。
scan-camera = スマートフォンのカメラでコードを読み取ります。
start-open = 表示されたリンクを開きます。
start-follow = リンク先の案内に沿って進みます。このページは自動で更新されます。
start-here = この端末で続ける
start-scan-label = このページのQRコード
wallet-text = { $brand } が、このスマートフォンの電話番号がお客様のものであることを確認します。ボタンをタップし、次の画面で同意してください。Wi-Fi はオンのままでかまいません。
wallet-button = この端末で確認する
wallet-again = 続けるには、ボタンをもう一度タップしてください。
silent-title = 電話番号を確認しています
silent-text = 携帯電話会社がお客様の電話番号を確認しています。数秒で完了します。
continue = 続ける
other-way = 別の方法を試す
stalled-title = まだ応答がありません
stalled-text = 携帯電話会社から応答がありません。もう一度お試しいただくか、別の方法を選択してください。
confirming-title = まもなく完了します
confirming-text = 携帯電話会社から応答がありました。{ $brand }が最終確認を行っています。
confirming-own-text = 携帯電話会社から応答がありました。あと1ステップで完了です。
confirming-elsewhere = 手続きを開始した画面で完了してください。このページは自動で進みます。
stalled-only-text = 携帯電話会社から応答がありません。モバイルデータ通信がオンになっているかご確認のうえ、もう一度お試しください。
ask-whether-to-stop-title = ここで中止しますか？
ask-whether-to-stop-text = お客様の電話番号を確認する方法は、ほかにありません。
elsewhere-title = スマートフォンで続けてください
elsewhere-text = スマートフォンまたは別のブラウザで、お客様の電話番号を確認しています。このページは自動で進みます。
allow-cookies = このステップに必要なCookieが、ブラウザでブロックされました。このページのCookieを許可して、もう一度お試しください。

## Text message from the user to us

text-title = SMSを送信してください
text-text = 確認する電話番号のスマートフォンから、下のメッセージを変更せずに送信してください。ご利用の携帯電話会社の通常のSMS料金がかかります。
text-warning = ご自分で開始した手続きでない場合は、このSMSを送信しないでください。
text-computer-text = 確認する電話番号のスマートフォンから、SMSを送信してください。ご利用の携帯電話会社の通常のSMS料金がかかります。
text-open = 表示されたメッセージを開きます。
text-send = 変更せずに送信します。
text-by-hand = または、メッセージを手動で入力
text-button = メッセージアプリを開く
text-scan-label = SMSのQRコード
text-receiver = 宛先
text-body = メッセージ
copy-receiver = 番号をコピー
copy-body = メッセージをコピー
copied = コピーしました
copy-failed = ブラウザでコピーがブロックされました。テキストは選択されていますので、手動でコピーしてください。
text-waiting = メッセージをお待ちしています…
text-cannot = SMSを送信できない
other-sender-title = もう一方のSIMカードから送信してください
other-sender-text = SMSが別の番号から届きました。末尾{ $tail }の電話番号のSIMカードから、もう一度送信してください。
received-title = メッセージを受信しました
received-text = 内容を確認しています。数秒たっても変わらない場合は、下のメッセージを変更せずにもう一度送信してください。
ask-whether-to-give-up-title = SMSを送信できませんか？
ask-whether-to-give-up-text = SMSを送信いただけないと、お客様の電話番号を確認できません。
ask-whether-to-give-up-yes = 確認せずに中止する
ask-if-wrong-number-title = 番号が違いますか？
ask-if-wrong-number-text = { $brand }が、末尾{ $tail }の電話番号を確認しようとしています。ご自分の番号でない場合は、ここで中止してください。
ask-if-wrong-number-yes = 自分の番号ではない
ask-no = 戻る

## SIM Swap check

sim-title = もう1つ確認しています
sim-text = 最近SIMカードが変更されていないか、携帯電話会社に問い合わせています。

## Results

done-title = 電話番号を確認しました
done-text = ありがとうございます。お客様の電話番号の確認が完了しました。
mismatch-title = 電話番号は確認されていません
mismatch-phone-text = { $brand }で入力された番号は、このスマートフォンの電話番号ではありません。番号をご確認のうえ、もう一度お試しください。
mismatch-text = 応答のあった番号が、{ $brand }で入力された番号と一致しません。番号をご確認のうえ、もう一度お試しください。
failed-title = 電話番号を確認できませんでした
failed-text = いずれの方法でも確認できませんでした。{ $brand }に戻って、もう一度お試しください。
given-up-title = 電話番号は確認されていません
given-up-text = 電話番号の確認が完了する前に中止されました。{ $brand }に戻って、もう一度お試しください。
wrong-number-title = お知らせいただきありがとうございます
wrong-number-text = 電話番号は確認されていません。{ $brand }に戻って、ご自分の番号を入力してください。
cancelled-title = 確認は不要になりました
cancelled-text = { $brand }がこの確認をキャンセルしました。
expired-title = このリンクは有効期限が切れています
expired-text = 時間内に電話番号を確認できませんでした。{ $brand }に戻って、最初からやり直してください。
return-link = { $brand }に戻る
close = このページは閉じていただいて構いません。

## Errors

unknown-title = このリンクは無効です
unknown-text = リンクが途中で切れていないかご確認いただくか、元のサイトに戻って、最初からやり直してください。
busy-title = 試行回数が多すぎます
busy-text = 1分ほど待ってから、もう一度お試しください。
unavailable-title = 問題が発生しました
unavailable-text = 現在、このページはご利用いただけません。1分ほど待ってから、もう一度お試しください。
refused-title = ページをもう一度開いてください
refused-text = お客様の安全のため、手続きはこのページからのみ続けられます。
retry = もう一度試す

## Page of a single check, whose link was opened in a browser

enter-code-text = このコードを元のアプリまたはサイトで入力してください。コードは1回限り有効で、まもなく有効期限が切れます。
device-failed-text = 携帯電話会社でお客様の電話番号を確認できませんでした。元のアプリまたはサイトに戻って、別の方法をお試しください。
not-mobile-title = モバイルデータ通信が使われていません
not-mobile-text = 電話番号の確認にはモバイルデータ通信が必要です。Wi-Fiをオフにし、元のアプリまたはサイトに戻って、もう一度お試しください。
used-title = このリンクは使用済みです
other-browser-title = 別のブラウザで開始されています
other-browser-text = 電話番号は確認されていません。ご自分で開始した場合は、開始したブラウザに戻ってください。それ以外の場合、このページは閉じていただいて構いません。
start-again-text = 元のアプリまたはサイトに戻って、最初からやり直してください。
other-browser-cookies = 開始したブラウザをお使いの場合は、Cookieを許可して、最初からやり直してください。

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = { $brand }にログイン
sign-in-text = 携帯電話番号を入力してください。次に、ご本人の番号であることを確認します。
sign-in-country = 国または地域
sign-in-choose-country = 選択してください
sign-in-number = 携帯電話番号
sign-in-hint = 国番号はあってもなくてもかまいません
sign-in-sandbox-hint = シミュレーション用の番号を使ってください（例: { $example }）
sign-in-privacy = 番号は{ $brand }へのログインにのみ使用します。
sign-in-discover = この電話の番号を使う
sign-in-cancel = キャンセル
sign-in-enter-number = 番号を入力する
sign-in-stalled-text = 携帯電話会社から応答がありません。もう一度試すか、番号を入力してください。
sign-in-invalid = 電話番号ではないようです。確認して、もう一度お試しください。
sign-in-not-supported = この番号は確認できません。別の携帯電話番号をお試しください。
sign-in-too-many-attempts = この番号での試行回数が多すぎます。後でもう一度試すか、別の番号を使ってください。
sign-in-try-later = 現在、番号を確認できません。1分後にもう一度お試しください。
sign-in-missing-country = 国を選択するか、番号を + と国番号から始めてください。
sign-in-ended-title = 元の画面で続けてください
sign-in-ended-text = ここでの操作は終わりました。ログインを始めたブラウザに戻ってください。
sign-in-cancelled-title = ログインをキャンセルしました
sign-in-cancelled-text = ログインしていません。もう一度試すには{ $brand }に戻ってください。
sign-in-expired-title = 時間がかかりすぎました
sign-in-expired-text = 安全のため、最初からやり直す必要があります。{ $brand }に戻ってください。
sign-in-failed-text = ログインできませんでした。もう一度試すには{ $brand }に戻ってください。
sign-in-refused-title = ログインできません
sign-in-refused-text = アクセス元のアプリまたはサイトのリクエストが無効です。戻ってもう一度試すか、そのサポートにお問い合わせください。
sign-in-detail = 開発者向けの詳細
